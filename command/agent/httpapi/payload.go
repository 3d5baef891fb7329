package httpapi

import (
	"fmt"
	"net/http"

	"github.com/golang/snappy"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func showJob(o *message.SingleJobResponse) (any, error) {
	if o.Job == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "job not found")
	}
	return withPayload(o.Job)
}

// withPayload returns the job with its payload decompressed. Servers store payloads compressed.
func withPayload(j *nomad.Job) (*nomad.Job, error) {
	if len(j.Payload) == 0 {
		return j, nil
	}
	if n, err := snappy.DecodedLen(j.Payload); err != nil || n > maxPayload {
		return nil, fmt.Errorf("the stored payload of job %q cannot be read: %d bytes, %v", j.ID, n, err)
	}
	payload, err := snappy.Decode(nil, j.Payload)
	if err != nil {
		return nil, fmt.Errorf("the stored payload of job %q cannot be read: %w", j.ID, err)
	}
	own := *j
	own.Payload = payload
	return &own, nil
}

// maxPayload bounds a decompressed payload. Servers accept 16 KiB.
const maxPayload = 1 << 20
