package readproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/vault"
)

// explanations are the texts for statuses of Vault, whose own texts can contain tokens.
var explanations = map[int]string{
	http.StatusBadRequest:          "the secrets engine does not accept the path or the data of the request",
	http.StatusForbidden:           "the policies of the task's token do not allow the request, or the token has ended",
	http.StatusMethodNotAllowed:    "the secrets engine does not support this operation on the path",
	http.StatusPreconditionFailed:  "this server does not have the newest data yet",
	http.StatusTooManyRequests:     "a quota of requests is exceeded",
	http.StatusInternalServerError: "an error inside Vault or its secrets engine: see the log of Vault",
	http.StatusServiceUnavailable:  "Vault is sealed or in maintenance",
}

// explain returns the status and the text for an error. Something that does not exist has no text, as at Vault.
func explain(ctx context.Context, err error) (status int, text string) {
	var refused *api.ResponseError
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return http.StatusBadGateway, "Vault does not answer: no answer in time"
	case !errors.As(err, &refused):
		return http.StatusBadGateway, "Vault does not answer: " + vault.Redact(err).Error()
	case refused.StatusCode == http.StatusNotFound:
		return http.StatusNotFound, ""
	}
	text = fmt.Sprintf("Vault returned status %d", refused.StatusCode)
	if more := explanations[refused.StatusCode]; more != "" {
		text += ": " + more
	}
	if refused.StatusCode < http.StatusBadRequest || refused.StatusCode > 599 {
		return http.StatusBadGateway, text // such a status is not of Vault
	}
	return refused.StatusCode, text
}
