package token

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/wake"
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

// IsZero reports whether the token is empty.
func (t Token) IsZero() bool { return t.Secret.IsZero() }

// String does not return the secret.
func (t Token) String() string { return fmt.Sprintf("vault token %q", t.Accessor) }

// Manager keeps the tokens of one allocation. Its methods may be called concurrently.
type Manager struct {
	node *Node // nil: no Vault
	cfg  Config
	more wake.Signal // a session was watched

	mu       sync.Mutex
	running  bool // Run runs
	prepared bool // the stored tokens were read
	sessions map[string]*session
}

// NewManager returns a Manager. Prepare comes first.
func (n *Node) NewManager(cfg Config) *Manager {
	if n == nil {
		return &Manager{} // each allocation of a node without Vault has one
	}
	return &Manager{node: n, cfg: cfg, more: wake.New()}
}

// Enabled reports whether the node has Vault. Otherwise the Manager has no tokens.
func (m *Manager) Enabled() bool { return m != nil && m.node != nil }

// needed returns the tasks of an allocation that need a token.
func (m *Manager) needed(a *nomad.Allocation) []*nomad.Task {
	if !m.Enabled() || a.Job == nil {
		return nil
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(group.Tasks), func(t *nomad.Task) bool { return t.Vault == nil })
}

// hasIdentity reports whether a task has an identity for Vault.
func hasIdentity(t *nomad.Task) bool {
	return slices.ContainsFunc(t.Identities, func(i *nomad.WorkloadIdentity) bool { return i.Name == Identity })
}

// Prepare reads the tokens that an earlier agent has stored. It reports whether Run has anything to do.
func (m *Manager) Prepare() bool {
	tasks := m.needed(m.cfg.Alloc)
	if len(tasks) == 0 {
		return false
	}
	stored := m.stored()
	slices.SortFunc(stored, func(a, b *state.VaultToken) int { return b.Created.Compare(a.Created) }) // the newest first
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prepared = true
	m.add(tasks)
	for _, t := range stored {
		if s := m.sessions[t.Task]; s != nil && s.token == nil {
			s.restore(t)
			continue
		}
		m.node.end(m.cfg.Alloc.ID, login.ReplacedWait, t)
	}
	return true
}

// add adds sessions of tasks. The caller holds mu.
func (m *Manager) add(tasks []*nomad.Task) {
	if m.sessions == nil {
		m.sessions = map[string]*session{}
	}
	for _, t := range tasks {
		if s := m.sessions[t.Name]; s != nil {
			s.block, s.identity = t.Vault, hasIdentity(t)
			s.wake.Send()
			continue
		}
		m.sessions[t.Name] = m.newSession(t)
	}
}

// stored returns the stored tokens of the allocation whose revocation has not begun.
func (m *Manager) stored() []*state.VaultToken {
	all, err := m.node.cfg.Store.VaultTokens(m.cfg.Alloc.ID)
	if err != nil {
		m.node.cfg.Log.Warn("read the Vault tokens of the previous agent", "alloc", m.cfg.Alloc.ID, "err", err)
	}
	return slices.DeleteFunc(all[m.cfg.Alloc.ID], func(t *state.VaultToken) bool { return !t.Ended.IsZero() })
}

// Update follows a newer version of the allocation. It reports whether the caller has to run Run. The tokens stay: a changed
// vault block makes a new allocation.
func (m *Manager) Update(a *nomad.Allocation) bool {
	tasks := m.needed(a)
	if len(tasks) == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(tasks)
	return !m.running
}

// Run logs tasks in and renews their tokens until ctx ends. It returns at once if it runs already.
func (m *Manager) Run(ctx context.Context) error {
	if !m.Enabled() {
		return nil
	}
	m.mu.Lock()
	running := m.running
	m.running = true
	m.mu.Unlock()
	if running {
		return nil
	}
	var work sync.WaitGroup
	defer work.Wait()
	for {
		m.mu.Lock()
		for _, s := range m.sessions {
			if s.watched && s.cancel == nil {
				one, cancel := context.WithCancel(ctx)
				s.cancel = cancel
				work.Go(func() { s.run(one) })
			}
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.more:
		}
	}
}

// begin begins the login of a session. The caller holds mu.
func (m *Manager) begin(s *session) {
	if !s.watched {
		s.watched = true
		m.more.Send()
	}
}

// Watch returns a channel that receives the current token of a task, if there is one, and then each token that a new login
// made. A renewal is not received. A subscriber that lags loses the older token. The returned function ends the subscription.
//
// The first Watch of a task begins its login: a task that does not start has no token. The token then stays through restarts
// and pauses, until EndTask or End.
func (m *Manager) Watch(task string) (<-chan Token, func()) {
	ch := make(chan Token, 1)
	if !m.Enabled() {
		return ch, func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[task]
	if s == nil {
		return ch, func() {}
	}
	m.begin(s)
	if t := s.current(); !t.IsZero() {
		ch <- t
	}
	subs := s.subs // those of a successor too
	subs[ch] = struct{}{}
	return ch, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(subs, ch)
	}
}

// Confirm waits until the task has a token that Vault has accepted since this agent started. A token of an earlier agent may
// have ended meanwhile, and so may have one that is not replaced at its end (allow_token_expiration). A task that is about to
// start calls it before Watch. A running one does not: if its token has ended, Watch receives another one. If Vault does not
// answer, the token of the earlier agent remains in use, and Confirm does not wait for Vault. It returns the error of ctx.
func (m *Manager) Confirm(ctx context.Context, task string) error {
	for first := true; ; first = false {
		ready, changed := m.confirmed(task, first)
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// confirmed reports whether Confirm need not wait for changed. The first call asks for a lookup.
func (m *Manager) confirmed(task string, first bool) (ready bool, changed <-chan struct{}) {
	if !m.Enabled() {
		return true, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[task]
	if s == nil {
		return true, nil
	}
	changed = s.verdicts.Next()
	if first {
		m.begin(s)
		if s.life.ended() {
			s.confirmed = time.Time{}
		}
		if s.token != nil && s.confirmed.IsZero() && !s.doubt && !s.lost {
			s.doubt = true
			s.wake.Send()
		}
	}
	return !s.current().IsZero() && (s.mute || !s.confirmed.IsZero()), changed
}

// Current returns the function that returns the current secret of a task, and its namespace. While there is none, the secret
// is "", and the namespace is that of the next login. The function may be used for as long as the allocation exists.
func (m *Manager) Current(task string) func() (secret, namespace string) {
	if !m.Enabled() {
		return func() (secret, namespace string) { return "", "" }
	}
	return func() (secret, namespace string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		s := m.sessions[task]
		switch t := s.current(); {
		case !t.IsZero():
			return t.Secret.Reveal(), t.Namespace
		case s != nil:
			return "", m.node.target(s.block).namespace
		}
		return "", ""
	}
}

const (
	// rejectedWait limits how long Rejected waits.
	rejectedWait = 5 * time.Second
	// trusted is how long after Vault has accepted a token Rejected does not ask again.
	trusted = 2 * time.Second
)

// Rejected reports that Vault answered 403 to a request with a secret of a task. If Vault does not accept the token any more,
// a login follows. Rejected returns true when another secret is current, after five seconds at most. It returns false if the
// token is valid, so that a policy denied the request, or if no other one came. With allow_token_expiration there is no login.
func (m *Manager) Rejected(ctx context.Context, task, secret string) bool {
	if !m.Enabled() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, rejectedWait)
	defer cancel()
	since := time.Now().Add(-trusted)
	for {
		replaced, changed := m.rejected(task, secret, since)
		if changed == nil {
			return replaced
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// rejected reports whether a secret was replaced. While that is open, it returns a channel to wait for. A token that Vault
// has accepted after since is valid.
func (m *Manager) rejected(task, secret string, since time.Time) (replaced bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[task]
	switch {
	case s == nil || !s.watched:
		return false, nil
	case !s.current().IsZero() && s.token.Secret != secret:
		return true, nil
	case s.block.AllowTokenExpiration && s.token != nil, !s.lost && s.confirmed.After(since):
		return false, nil
	}
	if s.token != nil && !s.lost && !s.doubt {
		s.doubt = true
		s.wake.Send()
	}
	return false, s.verdicts.Next()
}

// EndTask revokes the tokens of a task that has ended for good, and ends their renewal. The hook of a task calls it when the
// task is dead (taskhook.TaskStopHook). A later Watch logs the task in again. It does not wait for Vault. Prepare need not have
// been called.
func (m *Manager) EndTask(task string) {
	if !m.Enabled() {
		return
	}
	m.mu.Lock()
	var ended []*state.VaultToken
	if s := m.sessions[task]; s != nil {
		ended = s.stop()
		m.sessions[task] = s.successor()
	}
	prepared := m.prepared
	m.mu.Unlock()
	if !prepared {
		ended = append(ended, slices.DeleteFunc(m.stored(), func(t *state.VaultToken) bool { return t.Task != task })...)
	}
	m.node.end(m.cfg.Alloc.ID, 0, ended...)
}

// End revokes all tokens of the allocation. It waits one second at most; Node.Run continues. Run must have ended. Prepare need
// not have been called.
func (m *Manager) End(ctx context.Context) {
	if !m.Enabled() || len(m.needed(m.cfg.Alloc)) == 0 {
		return
	}
	m.mu.Lock()
	var ended []*state.VaultToken
	for _, s := range m.sessions {
		ended = append(ended, s.stop()...)
	}
	prepared := m.prepared
	m.sessions, m.prepared = nil, true
	m.mu.Unlock()
	if !prepared {
		ended = append(ended, m.stored()...)
	}
	m.node.logouts.EndAll(ctx, m.cfg.Alloc.ID, m.node.ended(m.cfg.Alloc.ID, ended))
}

// emit adds an event to a task.
func (m *Manager) emit(task, text string) {
	m.cfg.Emit(task, &nomad.TaskEvent{Type: nomad.TaskHookMessage, Time: time.Now().UnixNano(), Message: text, DisplayMessage: text})
}
