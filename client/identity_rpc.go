package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// errNoToken is returned while the servers have issued no token to the node.
var errNoToken = errors.New("node does not have a JWT identity token")

// identityGet returns the claims of the node's token, never the token.
func (c *Client) identityGet(_ context.Context, _ *rpc.Call, _ *message.NodeIdentityGetReq) (*message.NodeIdentityGetResp, error) {
	t := c.id.jwt()
	if t.IsZero() {
		return nil, errNoToken
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
	return &message.NodeIdentityGetResp{Claims: claims}, nil
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

// identityRenew requests a new token and triggers a heartbeat.
func (c *Client) identityRenew(_ context.Context, _ *rpc.Call, _ *message.NodeIdentityRenewReq) (*message.NodeIdentityRenewResp, error) {
	if err := c.id.askRenewal(); err != nil {
		return nil, fmt.Errorf("store the request for a new node identity: %w", err)
	}
	raise(c.urgent)
	return &message.NodeIdentityRenewResp{}, nil
}

// identitySession returns the session ID of this agent to the servers.
func (c *Client) identitySession(context.Context, *rpc.Call, *message.NodeSpecificRequest) (*message.NodeSessionResponse, error) {
	return &message.NodeSessionResponse{ID: c.session.ID}, nil
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
