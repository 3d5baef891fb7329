package token

import "github.com/open-nomad/open-nomad/client/login"

// Secret is the secret of a token.
type Secret = login.Secret

// NewSecret returns a Secret.
func NewSecret(raw string) Secret { return login.NewSecret(raw) }
