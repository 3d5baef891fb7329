package token

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/consul"
)

// maxRequests limits the requests to Consul at a time.
const maxRequests = 16

// Store keeps the tokens (state.DB).
type Store interface {
	PutConsulToken(alloc string, t *state.ConsulToken) error
	PutConsulTokenLater(alloc string, t *state.ConsulToken)
	DeleteConsulToken(alloc, accessor string)
	ConsulTokens(alloc string) (map[string][]*state.ConsulToken, error)
}

// NodeConfig configures a Node.
type NodeConfig struct {
	Agent *consul.Agent // of the cluster that jobs use
	// ServiceMethod and TaskMethod are the auth methods of Consul for services and tasks.
	ServiceMethod, TaskMethod string
	Store                     Store
	Log                       *slog.Logger
}

// Node holds what the Managers of a node share. Its methods may be called concurrently. A nil *Node is a node without Consul.
type Node struct {
	cfg     NodeConfig
	slots   login.Requests
	logouts *login.Logouts
}

// NewNode returns a Node. The caller runs it.
func NewNode(cfg NodeConfig) *Node {
	return &Node{cfg: cfg, slots: login.NewRequests(maxRequests), logouts: login.NewLogouts(
		login.LogoutsConfig{Product: "Consul", Down: down, Redact: consul.Redact, Log: cfg.Log})}
}

// request runs one request with the time limit of the agent of Consul, once fewer than maxRequests run.
func (n *Node) request(ctx context.Context, do func(ctx context.Context, c *api.Client) error) error {
	return n.slots.Do(ctx, func() error {
		ctx, cancel := n.cfg.Agent.Within(ctx)
		defer cancel()
		return do(ctx, n.cfg.Agent.Client())
	})
}

// login exchanges a JWT for a token.
func (n *Node) login(ctx context.Context, params *api.ACLLoginParams) (t *api.ACLToken, err error) {
	err = n.request(ctx, func(ctx context.Context, c *api.Client) error {
		t, _, err = c.ACL().Login(params, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
	if err == nil && (t == nil || !login.IsID(t.SecretID) || !login.IsID(t.AccessorID)) {
		return nil, api.StatusError{Code: 200} // of a proxy, perhaps
	}
	return t, err
}

// check asks the agent of Consul for a token.
func (n *Node) check(ctx context.Context, secret string) error {
	return n.request(ctx, func(ctx context.Context, c *api.Client) error {
		_, _, err := c.ACL().TokenReadSelf((&api.QueryOptions{AllowStale: true, Token: secret}).WithContext(ctx))
		return err
	})
}

// logout deletes a token in Consul. A token that does not exist is logged out.
func (n *Node) logout(ctx context.Context, secret string) error {
	err := n.request(ctx, func(ctx context.Context, c *api.Client) error {
		_, err := c.ACL().Logout((&api.WriteOptions{Token: secret}).WithContext(ctx))
		return err
	})
	if unknown(err) {
		return nil
	}
	return err
}

// minLife is the shortest life of a token in Consul. A shorter one would cause logins without a pause.
const minLife = time.Minute

// life returns how long a new token is valid, 0 for no end. Both times are of Consul's clock.
func life(t *api.ACLToken) time.Duration {
	if t.ExpirationTime == nil {
		return 0
	}
	from := t.CreateTime
	if from.IsZero() {
		from = time.Now()
	}
	return max(t.ExpirationTime.Sub(from), minLife)
}
