package model

import (
	"net/http"
	"time"
)

// Sign signs a request as a provider of Bedrock does.
func Sign(r *http.Request, body []byte, at time.Time, region, service, accessKey, secretKey string) error {
	s := signer{region: region, service: service, accessKey: accessKey, secretKey: secretKey, now: func() time.Time { return at }}
	return s.sign(r, body)
}
