package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// OneTimeTokenDeleteRequest is the log entry that removes the one-time tokens of ACL tokens. If OneTimeSecretID and
// Timestamp (open-nomad only) are set, the entry is an exchange. It then fails unless the token with this secret exists and
// has not expired.
type OneTimeTokenDeleteRequest struct {
	AccessorIDs     []string
	OneTimeSecretID string
	Timestamp       time.Time
	WriteRequest
}

// OneTimeTokenExchangeRequest is the request of ACL.ExchangeOneTimeToken.
type OneTimeTokenExchangeRequest struct {
	OneTimeSecretID string
	WriteRequest
}

// OneTimeTokenExchangeResponse is the reply of ACL.ExchangeOneTimeToken.
type OneTimeTokenExchangeResponse struct {
	Token *rbac.Token
	WriteMeta
}

// OneTimeTokenExpireRequest is the request of ACL.ExpireOneTimeTokens. The server sets Timestamp.
type OneTimeTokenExpireRequest struct {
	Timestamp time.Time
	WriteRequest
}

// OneTimeTokenUpsertRequest is the request of ACL.UpsertOneTimeToken.
type OneTimeTokenUpsertRequest struct {
	WriteRequest
}

// OneTimeTokenUpsertResponse is the reply of ACL.UpsertOneTimeToken.
type OneTimeTokenUpsertResponse struct {
	OneTimeToken *rbac.OneTimeToken
	WriteMeta
}
