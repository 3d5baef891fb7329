// Package identity holds the tokens of one allocation: fetches them from the
// servers, keeps them over a restart of the agent, renews them in time and
// publishes every new one.
//
//	        ┌────────stored────────┐
//	Prepare ┤                      ├─▶ held ──half of the life──▶ renewing ─┐
//	        └──Alloc.SignIdentities┘     ▲──────────────────────────────────┤
//	                                     └───────── back off, retry ◀──error┘
//
// The default token of a task comes with the allocation, never expires and is
// not renewed. All named ones that expire are renewed together, when half of the
// shortest remaining life is over plus up to a tenth of that, so that any TTL from
// one second up is renewed in time. The first renewal, and the first one after a
// failure, comes at any moment before that: allocations that started together, or
// that waited for the servers together, ask at different times from then on. Losing
// renewal never stops a task.
//
// Tokens are on disk before anybody sees them, so that a restarted agent holds
// what its tasks hold, or something newer.
//
// One goroutine, Run. A subscriber that lags loses the older token, not the
// manager's time. No token is ever logged.
package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// How long an allocation that has no tokens yet goes on asking for them.
const (
	firstWithin   = time.Minute
	retryFirst    = 250 * time.Millisecond
	retryFirstMax = 5 * time.Second
)

// errRejected means that the servers answered, and what they said will not change.
var errRejected = errors.New("the servers sign not all that was asked for")

// Caller reaches the servers; it adds the node's own token to each request.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Store keeps the tokens of an allocation over a restart of the agent.
type Store interface {
	Identities(allocID string) ([]*nomad.SignedWorkloadIdentity, error)
	PutIdentities(allocID string, ids []*nomad.SignedWorkloadIdentity) error
}

// Config of a Manager.
type Config struct {
	Alloc  *nomad.Allocation
	Region string
	RPC    Caller
	Store  Store
	Log    *slog.Logger
}

// Manager keeps the tokens of one allocation. Its methods may be called
// concurrently.
type Manager struct {
	cfg   Config
	asked []*nomad.WorkloadIdentityRequest

	mu   sync.Mutex
	held map[nomad.WIHandle]*nomad.SignedWorkloadIdentity
	subs map[nomad.WIHandle]map[chan nomad.Token]struct{}
}

// New returns a Manager for the identities that the allocation's tasks name.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg:  cfg,
		held: map[nomad.WIHandle]*nomad.SignedWorkloadIdentity{},
		subs: map[nomad.WIHandle]map[chan nomad.Token]struct{}{},
	}
	group := cfg.Alloc.Job.TaskGroup(cfg.Alloc.TaskGroup)
	if group == nil {
		return m
	}
	for _, task := range group.Tasks {
		for _, id := range task.Identities {
			m.asked = append(m.asked, &nomad.WorkloadIdentityRequest{
				AllocID: cfg.Alloc.ID, WIHandle: TaskHandle(task.Name, id.Name),
			})
		}
	}
	return m
}

// TaskHandle names an identity of a task.
func TaskHandle(task, identity string) nomad.WIHandle {
	return nomad.WIHandle{
		IdentityName: identity, WorkloadIdentifier: task, WorkloadType: nomad.WorkloadTypeTask,
	}
}

// Default returns the default token of a task, which came with the allocation.
func (m *Manager) Default(task string) nomad.Token {
	return nomad.NewToken(m.cfg.Alloc.SignedIdentities[task], m.cfg.Alloc.SigningKeyID)
}

// Prepare makes sure that a token of every named identity is held: the stored
// ones, else new ones from the servers, which it waits for within a bound. Stored
// ones that have expired meanwhile belong to tasks that run: they are not waited
// for, Run renews them at once.
func (m *Manager) Prepare(ctx context.Context) error {
	if len(m.asked) == 0 {
		return nil
	}
	stored, err := m.cfg.Store.Identities(m.cfg.Alloc.ID)
	if err != nil {
		m.cfg.Log.Warn("stored identities not read, fetching new ones",
			"alloc", m.cfg.Alloc.ID, "err", err)
	}
	if m.complete(stored) {
		m.publish(stored)
		return nil
	}
	return m.first(ctx)
}

// first fetches tokens for an allocation that has none. Servers that cannot be
// reached are asked again; what they refuse they refuse for good.
func (m *Manager) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	for wait := retryFirst; ; wait = min(2*wait, retryFirstMax) {
		err := m.fetch(ctx)
		if err == nil || errors.Is(err, errRejected) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait/2 + jitter(wait/2)):
		}
		m.cfg.Log.Debug("identities not signed, asking again", "alloc", m.cfg.Alloc.ID, "err", err)
	}
}

// Watch returns a channel that has the current token of an identity, when there
// is one that lives, and then each newer one; and a function that ends the
// subscription.
func (m *Manager) Watch(h nomad.WIHandle) (<-chan nomad.Token, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch := make(chan nomad.Token, 1)
	if id := m.held[h]; id != nil && alive(id, time.Now()) {
		ch <- nomad.NewToken(id.JWT, "")
	}
	if m.subs[h] == nil {
		m.subs[h] = map[chan nomad.Token]struct{}{}
	}
	m.subs[h][ch] = struct{}{}
	return ch, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.subs[h], ch)
	}
}

// fetch gets a token of every named identity from the servers, stores and
// publishes them.
func (m *Manager) fetch(ctx context.Context) error {
	ids, err := m.sign(ctx)
	if err != nil {
		return fmt.Errorf("sign identities of allocation %s: %w", m.cfg.Alloc.ID, err)
	}
	if err := m.cfg.Store.PutIdentities(m.cfg.Alloc.ID, ids); err != nil {
		// They are good all the same: a restarted agent fetches new ones.
		m.cfg.Log.Warn("identities not stored", "alloc", m.cfg.Alloc.ID, "err", err)
	}
	m.publish(ids)
	return nil
}

// sign asks the servers; anything but one token for each identity is an error.
func (m *Manager) sign(ctx context.Context) ([]*nomad.SignedWorkloadIdentity, error) {
	req := &nomad.AllocIdentitiesRequest{
		Identities: m.asked,
		QueryOptions: nomad.QueryOptions{
			Region: m.cfg.Region, Namespace: m.cfg.Alloc.Namespace, AllowStale: true,
			MinQueryIndex: max(m.cfg.Alloc.CreateIndex, 1) - 1,
		},
	}
	var resp nomad.AllocIdentitiesResponse
	if err := m.cfg.RPC.Call(ctx, "Alloc.SignIdentities", req, &resp); err != nil {
		return nil, err
	}
	var errs []error
	for _, r := range resp.Rejections {
		errs = append(errs, fmt.Errorf("identity %q of %q: %s", r.IdentityName, r.WorkloadIdentifier, r.Reason))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", errRejected, errors.Join(errs...))
	}
	if !m.complete(resp.SignedIdentities) {
		return nil, fmt.Errorf("%w: got %d tokens for %d identities", errRejected, len(resp.SignedIdentities), len(m.asked))
	}
	return resp.SignedIdentities, nil
}

// complete says whether ids holds every named identity.
func (m *Manager) complete(ids []*nomad.SignedWorkloadIdentity) bool {
	have := map[nomad.WIHandle]bool{}
	for _, id := range ids {
		have[id.WIHandle] = id.JWT != ""
	}
	for _, want := range m.asked {
		if !have[want.WIHandle] {
			return false
		}
	}
	return len(ids) == len(m.asked)
}

// alive says whether a token is not over yet.
func alive(id *nomad.SignedWorkloadIdentity, now time.Time) bool {
	return id.Expiration.IsZero() || id.Expiration.After(now)
}

// publish holds the tokens and hands them to their subscribers.
func (m *Manager) publish(ids []*nomad.SignedWorkloadIdentity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.held[id.WIHandle] = id
		for ch := range m.subs[id.WIHandle] {
			select {
			case <-ch: // the older token that nobody took
			default:
			}
			ch <- nomad.NewToken(id.JWT, "") // never blocks: only publish sends, under the mutex
		}
	}
}
