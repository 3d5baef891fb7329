package endpoint

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// vaultTokens describes the tokens of the node's tasks in Vault.
type vaultTokens struct{ s *Service }

// list answers VaultTokens.List. A server that relays the call removes what its caller may not read.
func (h vaultTokens) list(ctx context.Context, _ *rpc.Call, req *message.NodeSpecificRequest) (*message.VaultTokensResponse, error) {
	may, err := h.grants(ctx, req.AuthToken)
	if err != nil {
		return nil, err
	}
	out := &message.VaultTokensResponse{Tokens: []*message.VaultTokenStatus{}}
	for _, t := range h.s.cfg.Allocs.VaultTokens() {
		if may(t.Namespace) {
			out.Tokens = append(out.Tokens, t)
		}
	}
	return out, nil
}

// grants returns which namespaces a caller may read. The ticket of a server grants all of them.
func (h vaultTokens) grants(ctx context.Context, token string) (func(namespace string) bool, error) {
	if ticket.Is(token) {
		return func(string) bool { return true }, nil
	}
	_, access, err := h.s.cfg.Access.Caller(ctx, token)
	if err != nil {
		return nil, err
	}
	return func(namespace string) bool { return access.Allows(acl.InNamespace(namespace, acl.ReadJob)) }, nil
}
