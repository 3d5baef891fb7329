package token

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

const (
	// maxRequests and maxLogins limit the requests to Vault at a time. Logins that Vault cannot answer, because it does not
	// reach the keys of this cluster, do not delay renewals.
	maxRequests, maxLogins = 16, 8
	// grace is how long Run continues logins after its end.
	grace = time.Second
	// requestTime limits a request. A login is longer: Vault may have to fetch the keys of this cluster.
	requestTime, loginTime = 10 * time.Second, 30 * time.Second
	// maxSecret limits a token, in bytes. A batch token contains its policies.
	maxSecret = 16 << 10
)

// Store keeps the tokens (state.DB).
type Store interface {
	PutVaultToken(alloc string, t *state.VaultToken) error
	PutVaultTokenLater(alloc string, t *state.VaultToken)
	DeleteVaultToken(alloc, id string)
	VaultTokens(alloc string) (map[string][]*state.VaultToken, error)
}

// NodeConfig configures a Node.
type NodeConfig struct {
	Cluster *vault.Cluster // that tasks use
	Store   Store
	Log     *slog.Logger
}

// Node holds what the Managers of a node share. Its methods may be called concurrently. A nil *Node is a node without Vault.
type Node struct {
	cfg        NodeConfig
	slots      login.Requests
	loginSlots login.Requests
	logouts    *login.Logouts
	logins     chan func(context.Context) // Run calls them
}

// NewNode returns a Node. The caller runs it: without Run no task logs in.
func NewNode(cfg NodeConfig) *Node {
	return &Node{cfg: cfg, slots: login.NewRequests(maxRequests), loginSlots: login.NewRequests(maxLogins),
		logins: make(chan func(context.Context)), logouts: login.NewLogouts(login.LogoutsConfig{Product: "Vault", Down: down, Redact: vault.Redact, Log: cfg.Log})}
}

// Run makes the logins of tasks and revokes tokens until ctx ends. The next agent continues. A login in progress has another
// second, because Vault may have made a token already.
func (n *Node) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { _ = n.logouts.Run(ctx) }) // ends with ctx
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case exchange := <-n.logins:
			work.Go(func() {
				one, end := extended(ctx)
				defer end()
				exchange(one)
			})
		}
	}
}

// extended returns a context that ends when grace has passed after the end of ctx.
func extended(ctx context.Context) (out context.Context, end func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return out, func() { stop(); cancel() }
}

// loginRequest is a login of a task.
type loginRequest struct {
	alloc, task string
	jwt         idtoken.Token
	target
}

// target returns where a task logs in, with the current settings.
func (n *Node) target(block *nomad.Vault) target {
	s := n.cfg.Cluster.Settings()
	t := target{role: block.Role, method: s.AuthPath, namespace: block.Namespace}
	if t.role == "" {
		t.role = s.Role
	}
	if t.namespace == "" {
		t.namespace = s.Namespace
	}
	return t
}

// login exchanges a JWT for a token. If ctx ends first, the login continues below Run, and its token is revoked: Vault may
// have made one already.
func (n *Node) login(ctx context.Context, req loginRequest) (*state.VaultToken, error) {
	type result struct {
		token *state.VaultToken
		err   error
	}
	done := make(chan result)
	request := func(run context.Context) {
		t, err := n.exchange(run, req)
		if t == nil && run.Err() != nil {
			return // the agent stops: no failure of Vault
		}
		select {
		case done <- result{t, err}:
		case <-ctx.Done():
			if t != nil {
				n.end(req.alloc, 0, t)
			}
		}
	}
	select {
	case n.logins <- request:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case r := <-done:
		return r.token, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errNoToken is the error for an answer of a login without a usable token.
var errNoToken = errors.New("the answer of the login has no token: check the address of the vault block")

// exchange makes the request of a login.
func (n *Node) exchange(ctx context.Context, req loginRequest) (*state.VaultToken, error) {
	var began time.Time
	var s *api.Secret
	err := within(ctx, n.loginSlots, loginTime, func(ctx context.Context) (err error) {
		began = time.Now()
		s, err = n.cfg.Cluster.Client("", req.namespace).Logical().WriteWithContext(ctx, "auth/"+req.method+"/login",
			map[string]any{"jwt": req.jwt.Reveal(), "role": req.role})
		return err
	})
	if err != nil {
		metrics.IncrCounter([]string{"client", "vault", "login_error"}, 1)
		return nil, err
	}
	if s == nil || s.Auth == nil || !isSecret(s.Auth.ClientToken) || !isAccessor(s.Auth, req.jwt) {
		return nil, errNoToken
	}
	metrics.IncrCounter([]string{"client", "vault", "login"}, 1)
	a := s.Auth
	t := &state.VaultToken{ID: a.Accessor, Task: req.task, Accessor: a.Accessor, Secret: a.ClientToken, Namespace: req.namespace, Role: req.role,
		Created: began, Lease: seconds(int64(a.LeaseDuration)), Renewable: a.Renewable, Batch: a.Accessor == ""}
	if t.Batch {
		t.ID, t.Renewable = nomad.NewID(), false
	}
	return t, nil
}

// isSecret reports whether a text can be a token. It becomes part of files, variables and headers.
func isSecret(text string) bool {
	for _, c := range []byte(text) {
		if c < '!' || c > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxSecret
}

// accessor matches the accessors of Vault and OpenBao, which can end with a namespace.
var accessor = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,255}$`)

// isAccessor reports whether an answer has an accessor that can be logged, or none. A hostile Vault could repeat the token or
// the JWT there.
func isAccessor(a *api.SecretAuth, jwt idtoken.Token) bool {
	const long = 16 // a shorter one can be a part of others by chance
	switch {
	case a.Accessor == "":
		return true
	case !accessor().MatchString(a.Accessor), strings.Contains(a.Accessor, a.ClientToken):
		return false
	}
	return len(a.Accessor) < long || !strings.Contains(a.ClientToken, a.Accessor) && !strings.Contains(jwt.Reveal(), a.Accessor)
}

// within runs one request with a time limit, once it has a slot.
func within(ctx context.Context, slots login.Requests, limit time.Duration, do func(context.Context) error) error {
	return slots.Do(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return do(ctx)
	})
}

// lookup asks Vault for a token.
func (n *Node) lookup(ctx context.Context, t *state.VaultToken) (l life, err error) {
	err = within(ctx, n.slots, requestTime, func(ctx context.Context) error {
		began := time.Now()
		s, err := n.cfg.Cluster.Client(t.Secret, t.Namespace).Auth().Token().LookupSelfWithContext(ctx)
		if err == nil {
			l, err = described(began, s)
		}
		return err
	})
	return l, err
}

// renew extends the life of a token. A token with a short life has less time for it.
func (n *Node) renew(ctx context.Context, t *state.VaultToken, lease time.Duration) (l life, err error) {
	limit := min(requestTime, max(2*time.Second, lease/4))
	err = within(ctx, n.slots, limit, func(ctx context.Context) error {
		began := time.Now()
		s, err := n.cfg.Cluster.Client(t.Secret, t.Namespace).Auth().Token().RenewSelfWithContext(ctx, 0)
		if err == nil {
			l, err = renewed(began, s)
		}
		return err
	})
	return l, err
}
