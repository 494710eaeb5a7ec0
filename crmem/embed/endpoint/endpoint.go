// Package endpoint gets vectors from a server with an OpenAI-compatible API.
package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

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
	client := *http.DefaultClient
	if o.Client != nil {
		client = *o.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	options := append(RequestOptions(o.BaseURL), option.WithHTTPClient(&client))
	if o.Key != "" {
		options = append(options, option.WithAPIKey(o.Key))
	}
	return &remote{o: o, url: strings.TrimRight(o.BaseURL, "/") + "/embeddings", options: options}
}

// RequestOptions returns the options of each request to a server. They do not depend on the
// environment, and the library does not retry.
func RequestOptions(baseURL string) []option.RequestOption {
	list := []option.RequestOption{option.WithBaseURL(baseURL), option.WithMaxRetries(0), option.WithHeader("User-Agent", "crabmem")}
	for _, name := range []string{"Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Retry-Count", "Timeout"} {
		list = append(list, option.WithHeaderDel("X-Stainless-"+name)) // describes this machine
	}
	return list
}

type remote struct {
	o   Options
	url string
	// The options are not in an openai.Client: the linker would keep all its methods.
	options []option.RequestOption
}

type response struct {
	Data []struct {
		Index     *int      `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
}

// Embed returns the vectors of texts. It is [embed.ErrRefused] if the server refuses them.
func (c *remote) Embed(ctx context.Context, texts []string) ([][]float32, error) {
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
func (c *remote) post(ctx context.Context, texts []string) ([][]float32, error) {
	params := openai.EmbeddingNewParams{
		Model: c.o.Model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts}, EncodingFormat: openai.EmbeddingNewParamsEncodingFormatFloat,
	}
	if c.o.Dimensions {
		params.Dimensions = openai.Int(int64(c.o.Dim))
	}
	limit := int64(len(texts))*int64(c.o.Dim)*maxNumber + maxRest
	limited := func(q *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(q)
		if err == nil {
			res.Body = &limitedBody{io.LimitReader(res.Body, limit+1), res.Body}
		}
		return res, err
	}
	var b []byte
	var res *http.Response
	api := openai.Client{Options: c.options} // openai.NewClient reads the environment
	err := api.Post(ctx, "embeddings", params, &b, option.WithResponseInto(&res), option.WithMiddleware(limited))
	if e, ok := errors.AsType[*openai.Error](err); ok {
		b, _ = io.ReadAll(e.Response.Body) // the library has read it
		return nil, statusError(e.StatusCode, b)
	}
	switch {
	case err != nil:
		return nil, withoutURL(err)
	case res.StatusCode != http.StatusOK:
		return nil, statusError(res.StatusCode, b)
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("the response has more than %d bytes: check the model and its dimension", limit)
	}
	return c.vectors(b, len(texts))
}

// limitedBody is the beginning of a body.
type limitedBody struct {
	io.Reader
	io.Closer
}

// vectors returns n vectors of a response, in the order of the texts.
func (c *remote) vectors(b []byte, n int) ([][]float32, error) {
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
