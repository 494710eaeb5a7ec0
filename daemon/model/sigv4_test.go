package model_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/model"
)

const (
	exampleKey    = "AKIDEXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// TestSignatureVectors has the cases of AWS's own test suite for Signature
// Version 4 that are of the shape we send.
func TestSignatureVectors(t *testing.T) {
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	for _, c := range []struct{ name, method, query, contentType, body, signed, want string }{
		{"get-vanilla", "GET", "", "", "", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"get-vanilla-query-order-key-case", "GET", "?Param2=value2&Param1=value1", "", "", "host;x-amz-date",
			"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{"post-vanilla", "POST", "", "", "", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"post-x-www-form-urlencoded", "POST", "", "application/x-www-form-urlencoded", "Param1=value1", "content-type;host;x-amz-date",
			"ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
	} {
		r, err := http.NewRequest(c.method, "https://example.amazonaws.com/"+c.query, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		if err := model.Sign(r, []byte(c.body), at, "us-east-1", "service", exampleKey, exampleSecret); err != nil {
			t.Fatal(err)
		}
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + c.signed + ", Signature=" + c.want
		if got := r.Header.Get("Authorization"); got != want || r.Header.Get("X-Amz-Date") != "20150830T123600Z" {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, want)
		}
	}
}

// TestBedrockSignature computes the signature of a sent request from its bytes.
func TestBedrockSignature(t *testing.T) {
	sent, _ := call(t, model.Provider{Kind: "bedrock", Region: "eu-west-1", AccessKey: exampleKey, SecretKey: exampleSecret, Models: []string{"m"}}, ask("hi"), true)
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return hex.EncodeToString(h[:])
	}
	mac := func(key, s string) string {
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(s))
		return string(m.Sum(nil))
	}
	date := sent.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if err != nil || time.Since(at).Abs() > time.Minute {
		t.Fatalf("date %q: %v", date, err)
	}
	canonical := "POST\n/openai/v1/chat/completions\n\ncontent-type:application/json\n" +
		"host:bedrock-runtime.eu-west-1.amazonaws.com\nx-amz-date:" + date + "\n\ncontent-type;host;x-amz-date\n" + sum(sent.Body)
	scope := date[:8] + "/eu-west-1/bedrock/aws4_request"
	key := mac(mac(mac(mac("AWS4"+exampleSecret, date[:8]), "eu-west-1"), "bedrock"), "aws4_request")
	want := hex.EncodeToString([]byte(mac(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+sum(canonical))))
	if got := sent.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+want) || !strings.Contains(got, "Credential="+exampleKey+"/"+scope) {
		t.Errorf("%s, want %s", got, want)
	}
	// With a key of Bedrock there is no signature.
	sent, _ = call(t, model.Provider{Kind: "bedrock", Region: "eu-west-1", APIKey: "bedrock-api-key", Models: []string{"m"}}, ask("hi"), true)
	if got := sent.Header.Get("Authorization"); got != "Bearer bedrock-api-key" || sent.Header.Get("X-Amz-Date") != "" {
		t.Errorf("with a key: %s", got)
	}
	// The other endpoint of Bedrock has another service name.
	sent, _ = call(t, model.Provider{Kind: "bedrock", Region: "eu-west-1", BaseURL: "https://bedrock-mantle.eu-west-1.api.aws", AccessKey: exampleKey, SecretKey: exampleSecret, Models: []string{"m"}}, ask("hi"), true)
	if got := sent.Header.Get("Authorization"); !strings.Contains(got, "/eu-west-1/bedrock-mantle/aws4_request") || sent.URL != "https://bedrock-mantle.eu-west-1.api.aws/openai/v1/chat/completions" {
		t.Errorf("mantle: %s %s", sent.URL, got)
	}
}
