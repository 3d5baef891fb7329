package nodeid

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNoToken is returned while the servers have issued no token to the node.
var ErrNoToken = errors.New("node does not have a JWT identity token")

// Claims returns the claims of the node's token.
func (i *Identity) Claims() (map[string]any, error) {
	t := i.JWT()
	if t.IsZero() {
		return nil, ErrNoToken
	}
	var parts map[string]json.RawMessage
	if err := decodePart(t.Reveal(), 1, &parts); err != nil {
		return nil, fmt.Errorf("read the node's token: %w", err)
	}
	claims := make(map[string]any, len(parts))
	for name, raw := range parts {
		var err error
		if claims[name], err = claim(raw); err != nil {
			return nil, fmt.Errorf("read claim %q of the node's token: %w", name, err)
		}
	}
	return claims, nil
}

// claim decodes the value of a claim. Integers, such as times, are decoded as int64.
func claim(raw json.RawMessage) (v any, err error) {
	var n int64
	if json.Unmarshal(raw, &n) == nil && !bytes.Equal(raw, []byte("null")) {
		return n, nil
	}
	err = json.Unmarshal(raw, &v)
	return v, err
}

// lifetime returns when the token was issued and when it expires. ok is false if there is no
// token or it has no expiry.
func (i *Identity) lifetime() (from, to time.Time, ok bool) {
	var claims struct {
		IssuedAt int64 `json:"iat"`
		Expiry   int64 `json:"exp"`
	}
	if err := decodePart(i.JWT().Reveal(), 1, &claims); err != nil || claims.Expiry == 0 {
		return from, to, false
	}
	return time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expiry, 0), true
}

// overdue reports whether a new token should have arrived: one was requested, or less than a
// quarter of the token's lifetime remains. Servers renew when a third remains.
func (i *Identity) overdue(now time.Time) bool {
	from, to, ok := i.lifetime()
	return i.WantsRenewal() || ok && now.After(to.Add(-to.Sub(from)/4))
}

// keyID returns the key ID in the header of a token, or "". The token is the node's own, so it
// is not verified.
func keyID(raw string) string {
	var header struct {
		KeyID string `json:"kid"`
	}
	if err := decodePart(raw, 0, &header); err != nil {
		return ""
	}
	return header.KeyID
}

// decodePart decodes the nth part of a compact JWS.
func decodePart(raw string, n int, v any) error {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return errors.New("not a compact JWS")
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[n])
	if err != nil {
		return errors.New("not base64url")
	}
	return json.Unmarshal(b, v)
}
