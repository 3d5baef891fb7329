package token

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// Identity is the name of the identity with which a task logs in.
var Identity = vault.IdentityName(vault.DefaultCluster)

// Identities provides the identities of an allocation (identity.Manager).
type Identities interface {
	Watch(h message.WIHandle) (<-chan idtoken.Token, func())
}

// Config configures a Manager.
type Config struct {
	Alloc      *nomad.Allocation
	Node       *nomad.Node
	Region     string
	Identities Identities
	// Emit adds an event to a task. It must not block.
	Emit func(task string, e *nomad.TaskEvent)
}

// Token is the token of a task. It prints without the secret.
type Token struct {
	Secret    login.Secret
	Accessor  string // "" for a batch token
	Namespace string // of Vault, "" for the root namespace
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.Secret.IsZero() }

// String does not return the secret.
func (t Token) String() string { return fmt.Sprintf("vault token %q", t.Accessor) }

// Manager keeps the tokens of one allocation. Its methods may be called concurrently.
type Manager struct {
	node *Node // nil: no Vault
	cfg  Config
}

// NewManager returns a Manager. Prepare comes first.
func (n *Node) NewManager(cfg Config) *Manager { return &Manager{node: n, cfg: cfg} }

// Enabled reports whether the node has Vault. Otherwise the Manager has no tokens.
func (m *Manager) Enabled() bool { return m != nil && m.node != nil }

// Prepare reads the tokens that an earlier agent has stored. It reports whether Run has anything to do.
func (m *Manager) Prepare() bool { return false }

// Update follows a newer version of the allocation. It reports whether the caller has to run Run.
func (m *Manager) Update(a *nomad.Allocation) bool { return false }

// Run logs tasks in and renews their tokens until ctx ends. It returns at once if it runs already.
func (m *Manager) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Watch returns a channel that receives the current token of a task, if there is one, and then each token that a new login
// made. A renewal is not received. A subscriber that lags loses the older token. The returned function ends the subscription.
//
// The first Watch of a task begins its login: a task that does not start has no token. The token then stays through restarts
// and pauses, until EndTask or End.
func (m *Manager) Watch(task string) (<-chan Token, func()) { return make(chan Token, 1), func() {} }

// Confirm waits until the task has a token that Vault has accepted since this agent started. A token of an earlier agent may
// have ended meanwhile. A task that is about to start calls it before Watch; a running one does not, because its token is
// replaced when that is necessary. It returns the error of ctx.
func (m *Manager) Confirm(ctx context.Context, task string) error { return nil }

// Secret returns the function that returns the current secret of a task, "" while there is none. The function may be used for
// as long as the allocation exists.
func (m *Manager) Secret(task string) func() string { return func() string { return "" } }

// Rejected reports that Vault answered 403 to a request with a secret of a task. If Vault does not accept the token any more,
// a login follows. Rejected returns true when another secret is current, after five seconds at most. It returns false if the
// token is valid, so that a policy denied the request, or if no other one came.
func (m *Manager) Rejected(ctx context.Context, task, secret string) bool { return false }

// EndTask revokes the tokens of a task that has ended for good, and ends their renewal. The hook of a task calls it when the
// task is dead (taskhook.TaskStopHook). A later Watch logs the task in again. It does not wait for Vault.
func (m *Manager) EndTask(task string) {}

// End revokes all tokens of the allocation. It waits one second at most; Node.Run continues. Run must have ended. Prepare need
// not have been called.
func (m *Manager) End(ctx context.Context) {}

// Status describes the tokens of the tasks, in the order of the tasks. It has no secret.
func (m *Manager) Status() []*message.VaultTokenStatus { return nil }
