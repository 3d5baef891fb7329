package token

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TaskIdentity is the name of the identity of a task that logs in to Consul.
const TaskIdentity = "consul_" + consul.DefaultCluster

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
	// Emit adds an event to a task, or to all tasks if the name is "". It must not block.
	Emit func(task string, e *nomad.TaskEvent)
}

// key is how users name a token: the name of the identity, and the task or "" for a service of the group.
type key struct{ identity, workload string }

// Manager keeps the tokens of one allocation. Its methods may be called concurrently.
type Manager struct {
	node *Node // nil: no Consul
	cfg  Config
	more wake.Signal // workloads were added

	mu        sync.Mutex
	running   bool // Run runs
	workloads map[key]*workload
	// retired are the tokens that were replaced and are still valid, by accessor.
	retired map[string]*state.ConsulToken
}

// NewManager returns a Manager. Prepare comes first.
func (n *Node) NewManager(cfg Config) *Manager {
	if n == nil {
		return &Manager{} // each allocation of a node without Consul has one
	}
	return &Manager{node: n, cfg: cfg, more: wake.New(), workloads: map[key]*workload{}, retired: map[string]*state.ConsulToken{}}
}

// Enabled reports whether the node has Consul. Otherwise the Manager has no tokens.
func (m *Manager) Enabled() bool { return m != nil && m.node != nil }

// needed returns the workloads of an allocation that need a token.
func (m *Manager) needed(a *nomad.Allocation) []*workload {
	if m.node == nil {
		return nil
	}
	var out []*workload
	for _, s := range identity.Services(a, m.cfg.Node, m.cfg.Region) {
		out = append(out, &workload{
			key: key{s.Identity.Name, s.Task}, handle: s.Handle(), service: s.Interpolated, method: m.node.cfg.ServiceMethod,
			requester: "nomad_service_" + s.Interpolated, name: fmt.Sprintf("service %q", s.Interpolated), shared: s.Connect != nil,
		})
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return out
	}
	for _, task := range group.Tasks {
		if !slices.ContainsFunc(task.Identities, func(i *nomad.WorkloadIdentity) bool { return i.Name == TaskIdentity }) {
			continue
		}
		out = append(out, &workload{
			key: key{TaskIdentity, task.Name}, handle: identity.TaskHandle(task.Name, TaskIdentity), method: m.node.cfg.TaskMethod,
			requester: "nomad_task_" + task.Name, name: fmt.Sprintf("task %q", task.Name), shared: true,
		})
	}
	return out
}

// Prepare reads the tokens that an earlier agent has stored. It reports whether Run has anything to do.
func (m *Manager) Prepare() bool {
	list := m.needed(m.cfg.Alloc)
	if len(list) == 0 {
		return false
	}
	stored := m.stored()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range list {
		for _, t := range stored {
			if w.owns(t) {
				w.restore(t)
			}
		}
		m.add(w)
	}
	for _, t := range stored {
		if w := m.workloads[key{t.Identity, t.Workload}]; w == nil || w.token != t {
			m.retired[t.Accessor] = t
		}
	}
	return true
}

// stored returns the stored tokens whose logout has not begun.
func (m *Manager) stored() []*state.ConsulToken {
	all, err := m.node.cfg.Store.ConsulTokens(m.cfg.Alloc.ID)
	if err != nil {
		m.node.cfg.Log.Warn("read the Consul tokens of the previous agent", "alloc", m.cfg.Alloc.ID, "err", err)
	}
	return slices.DeleteFunc(all[m.cfg.Alloc.ID], func(t *state.ConsulToken) bool { return !t.Ended.IsZero() })
}

// add adds a workload, unless another one has its key. The caller holds mu.
func (m *Manager) add(w *workload) {
	if m.workloads[w.key] != nil {
		return // the servers give every service of a group its own name of the identity
	}
	w.m, w.wake, w.subs, w.spread = m, wake.New(), map[chan login.Secret]struct{}{}, rand.Float64()
	m.workloads[w.key] = w
	m.more.Send()
}

// Update adds the workloads of a newer version of the allocation. It reports whether the caller has to run Run. A service with
// another name logs in again, and the token with the old name is used until then. Removed workloads stay until Trim.
func (m *Manager) Update(a *nomad.Allocation) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.needed(a) {
		old := m.workloads[w.key]
		if old != nil && old.handle == w.handle {
			continue
		}
		if old != nil {
			old.stop()
			w.token, w.stale = old.token, old.token != nil
			delete(m.workloads, w.key)
		}
		m.add(w)
		if old != nil {
			w.subs = old.subs
		}
	}
	return !m.running && len(m.workloads) > 0
}

// Trim logs out the tokens of the workloads that a newer version of the allocation no longer has.
func (m *Manager) Trim(a *nomad.Allocation) {
	needed := map[key]bool{}
	for _, w := range m.needed(a) {
		needed[w.key] = true
	}
	var ended []*state.ConsulToken
	m.mu.Lock()
	for k, w := range m.workloads {
		if needed[k] {
			continue
		}
		w.stop()
		if w.token != nil {
			ended = append(ended, w.token)
		}
		delete(m.workloads, k)
	}
	m.mu.Unlock()
	if len(ended) > 0 {
		m.node.end(m.cfg.Alloc.ID, ended, login.ReplacedWait)
	}
}

// Run logs the workloads in and renews their tokens until ctx ends. It returns at once if it runs already.
func (m *Manager) Run(ctx context.Context) error {
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
		for _, w := range m.workloads {
			if w.cancel == nil {
				one, cancel := context.WithCancel(ctx)
				w.cancel = cancel
				work.Go(func() { w.run(one) })
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

// Token returns the function that returns the current secret of an identity, "" while there is none. The workload is the task,
// or "" for a service of the group. The function may be used for as long as the allocation exists.
func (m *Manager) Token(identity, workload string) (secret func() string) {
	if !m.Enabled() {
		return func() string { return "" }
	}
	return func() string {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.workloads[key{identity, workload}].secret().Reveal()
	}
}

// Watch returns a channel that receives the current secret of an identity, and then each newer one. A subscriber that lags
// loses the older one. The returned function ends the subscription.
func (m *Manager) Watch(identity, workload string) (<-chan login.Secret, func()) {
	ch := make(chan login.Secret, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workloads[key{identity, workload}]
	if w == nil {
		return ch, func() {}
	}
	if s := w.secret(); !s.IsZero() {
		ch <- s
	}
	subs := w.subs // those of a successor too
	subs[ch] = struct{}{}
	return ch, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(subs, ch)
	}
}

// Invalidate reports that Consul did not accept a secret because it does not know it: status 403, "ACL not found". If Consul
// confirms that, a new login follows.
func (m *Manager) Invalidate(secret string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.workloads {
		if w.token != nil && w.token.Secret == secret {
			w.doubt = true
			w.wake.Send()
		}
	}
}

// End logs out all tokens of the allocation. It waits one second at most; Node.Run continues. Run must have ended. Prepare need
// not have been called.
func (m *Manager) End(ctx context.Context) {
	if m.node == nil {
		return
	}
	m.mu.Lock()
	tokens := maps.Clone(m.retired)
	for _, w := range m.workloads {
		if w.token != nil {
			tokens[w.token.Accessor] = w.token
		}
	}
	m.workloads, m.retired = map[key]*workload{}, map[string]*state.ConsulToken{}
	m.mu.Unlock()
	for _, t := range m.stored() {
		tokens[t.Accessor] = t
	}
	m.node.logouts.EndAll(ctx, m.cfg.Alloc.ID, m.node.ended(m.cfg.Alloc.ID, slices.Collect(maps.Values(tokens))))
}

// retire ends a token that was replaced. If it is kept, that is at its own end or that of the allocation.
func (m *Manager) retire(t *state.ConsulToken, keep bool) {
	if !keep {
		m.node.end(m.cfg.Alloc.ID, []*state.ConsulToken{t}, login.ReplacedWait)
		return
	}
	old := *t
	old.Replaced = true
	if err := m.node.cfg.Store.PutConsulToken(m.cfg.Alloc.ID, &old); err != nil {
		m.node.cfg.Log.Warn("store a replaced Consul token", "alloc", m.cfg.Alloc.ID, "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retired[old.Accessor] = &old
	for accessor, t := range m.retired {
		if !t.Expires.IsZero() && time.Now().After(t.Expires) {
			delete(m.retired, accessor)
			m.node.cfg.Store.DeleteConsulToken(m.cfg.Alloc.ID, accessor)
		}
	}
}

// emit adds an event to the tasks of a workload.
func (m *Manager) emit(w *workload, text string) {
	m.cfg.Emit(w.key.workload, &nomad.TaskEvent{Type: nomad.TaskHookMessage, Time: time.Now().UnixNano(), Message: text, DisplayMessage: text})
}
