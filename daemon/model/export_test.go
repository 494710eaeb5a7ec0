package model

import (
	"net/http"
	"time"
)

// NewRegistryOver is NewRegistry with another way to the network.
func NewRegistryOver(transport http.RoundTripper, providers ...Provider) (*Registry, error) {
	return newRegistry(providers, "", transport)
}

// Sign signs a request as a provider of Bedrock does.
func Sign(r *http.Request, body []byte, at time.Time, region, service, accessKey, secretKey string) error {
	s := signer{region: region, service: service, accessKey: accessKey, secretKey: secretKey, now: func() time.Time { return at }}
	return s.sign(r, body)
}
