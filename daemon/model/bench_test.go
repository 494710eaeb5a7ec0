package model_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"crabmem/daemon/model"
)

// BenchmarkStream reads a stream of 1,000 chunks, without a network.
func BenchmarkStream(b *testing.B) {
	var s strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&s, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word %d "},"logprobs":null,"finish_reason":null}]}`+"\n\n", i)
	}
	s.WriteString(streamEnd)
	n := &network{answers: []func(*http.Request) (*http.Response, error){answer(200, "text/event-stream", s.String())}}
	r, err := model.NewRegistry(model.Network{Transport: n}, []model.Provider{{Name: "p", BaseURL: "http://model.test/v1", Models: []string{"m"}}}, "")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(s.Len()))
	b.ReportAllocs()
	for b.Loop() {
		chunks := 0
		for _, err := range r.Stream(b.Context(), ask("?")) {
			if err != nil {
				b.Fatal(err)
			}
			chunks++
		}
		if chunks != 1001 {
			b.Fatal(chunks)
		}
	}
}
