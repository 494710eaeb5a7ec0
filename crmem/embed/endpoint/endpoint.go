// Package endpoint gets vectors from a server with an OpenAI-compatible API.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/crmem/embed"
)

const (
	maxTexts = 32 // of a request

	maxMessage = 200     // bytes of an error message of the server that are kept
	maxNumber  = 40      // bytes of a component of a vector in JSON, with space
	maxRest    = 1 << 16 // bytes of a response without the vectors
)

// Options select a model of a server.
type Options struct {
	BaseURL    string // such as https://api.openai.com/v1
	Key        string // "": none
	Model      string
	Dim        int  // components of a vector; the server must return as many
	Dimensions bool // send Dim to the server, which some models need and others refuse
	Client     *http.Client
}

// New returns an embedder that sends POST requests to BaseURL + "/embeddings". It reads no
// environment variable and sends the key to no other host.
func New(o Options) embed.Embedder {
	c := &client{o: o, url: strings.TrimRight(o.BaseURL, "/") + "/embeddings"}
	c.http = *http.DefaultClient
	if o.Client != nil {
		c.http = *o.Client
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

type client struct {
	o    Options
	url  string
	http http.Client
}

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Encoding   string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type response struct {
	Data []struct {
		Index     *int      `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
}

// Embed returns the vectors of texts. It is [embed.ErrRefused] if the server refuses them.
func (c *client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	var list [][]float32
	for len(texts) > 0 {
		n := min(len(texts), maxTexts)
		vectors, err := c.post(ctx, texts[:n])
		if err != nil {
			return nil, fmt.Errorf("POST %s: %w", c.url, err)
		}
		list = append(list, vectors...)
		texts = texts[n:]
	}
	return list, nil
}

// post makes a request for at most maxTexts texts.
func (c *client) post(ctx context.Context, texts []string) ([][]float32, error) {
	body := request{Model: c.o.Model, Input: texts, Encoding: "float"}
	if c.o.Dimensions {
		body.Dimensions = c.o.Dim
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.o.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer res.Body.Close()
	limit := int64(len(texts))*int64(c.o.Dim)*maxNumber + maxRest
	b, err = io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, statusError(res.StatusCode, b)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("the response has more than %d bytes: check the model and its dimension", limit)
	}
	return c.vectors(b, len(texts))
}

// vectors returns n vectors of a response, in the order of the texts.
func (c *client) vectors(b []byte, n int) ([][]float32, error) {
	var res response
	if err := json.Unmarshal(b, &res); err != nil {
		return nil, fmt.Errorf("parse the response: %w", err)
	}
	if len(res.Data) != n {
		return nil, fmt.Errorf("the response has %d vectors, want %d", len(res.Data), n)
	}
	list := make([][]float32, n)
	for _, d := range res.Data {
		if d.Index == nil || *d.Index < 0 || *d.Index >= n || list[*d.Index] != nil {
			return nil, errors.New("the response has a missing, wrong, or repeated index")
		}
		if len(d.Embedding) != c.o.Dim {
			return nil, fmt.Errorf("the vector has %d components, want %d: check the model and its dimension", len(d.Embedding), c.o.Dim)
		}
		list[*d.Index] = d.Embedding
	}
	return list, nil
}

// withoutURL removes the method and the URL, which the caller adds, from an error.
func withoutURL(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.Contains(err.Error(), "http") {
			return err
		}
		err = inner
	}
}

// statusError returns the error of a response that is no success. A request that the
// server would refuse again, because of its texts, is [embed.ErrRefused].
func statusError(code int, body []byte) error {
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	message := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &e) == nil && len(e.Error) > 0 {
		var object struct {
			Message string `json:"message"`
		}
		var text string
		switch {
		case json.Unmarshal(e.Error, &object) == nil && object.Message != "":
			message = object.Message
		case json.Unmarshal(e.Error, &text) == nil && text != "":
			message = text
		}
	}
	message = clip.Marked(strings.ToValidUTF8(message, "\uFFFD"), maxMessage)
	err := fmt.Errorf("status %d %s: %q", code, http.StatusText(code), message)
	switch code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %w", embed.ErrRefused, err)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: check the key", err)
	case http.StatusNotFound:
		return fmt.Errorf("%w: check the base URL and the model", err)
	}
	return err
}
