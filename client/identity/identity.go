// Package identity manages the tokens of one allocation. It fetches them from the servers,
// stores them, renews them in time and publishes every new one.
//
//	        ┌────────stored────────┐
//	Prepare ┤                      ├─▶ held ──half of the life──▶ renewing ─┐
//	        └──Alloc.SignIdentities┘     ▲──────────────────────────────────┤
//	                                     └───────── back off, retry ◀──error┘
//
// The identities are the named ones of the tasks, and those of services of Consul. An update of the allocation can add and
// remove services. Prepare does not wait for the tokens of services, nor fail without them: Run fetches those that are
// missing.
//
// The default token of a task is part of the allocation, never expires and is not renewed. All
// expiring named tokens are renewed together, when half of the shortest remaining lifetime has
// passed, plus up to a tenth of that. So any TTL of one second or more is renewed in time. The
// first renewal, and the first after a failure, happens at a random time before that. So
// allocations that started or waited together do not renew together. A failed renewal never
// stops a task.
//
// Tokens are stored before they are published, so that a restarted agent has the tokens of its
// tasks, or newer ones.
//
// Run is the only goroutine, and runs once at a time. A subscriber that lags loses the older token and does not block
// the manager. No token is logged.
package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits for fetching the first tokens of an allocation.
const (
	firstWithin   = time.Minute
	retryFirst    = 250 * time.Millisecond
	retryFirstMax = 5 * time.Second
)

// errRejected means that the servers refused the request; a retry would not change that.
var errRejected = errors.New("the servers refused to sign the identities")

// Store stores the tokens of an allocation.
type Store interface {
	Identities(allocID string) ([]*message.SignedWorkloadIdentity, error)
	PutIdentities(allocID string, ids []*message.SignedWorkloadIdentity) error
}

// Config configures a Manager.
type Config struct {
	Alloc  *nomad.Allocation
	Node   *nomad.Node // interpolates the names of services
	Region string
	RPC    message.Caller
	Store  Store
	Log    *slog.Logger
}

// Manager manages the tokens of one allocation. Its methods may be called concurrently.
type Manager struct {
	cfg  Config
	turn chan struct{} // held while tokens are fetched, so that a later fetch stores the results of earlier ones
	more wake.Signal   // the identities have changed

	mu      sync.Mutex
	running bool // Run runs
	asked   []*message.WorkloadIdentityRequest
	tokens  map[message.WIHandle]*message.SignedWorkloadIdentity
	renewAt map[message.WIHandle]time.Time // half of the life of a held token that expires
	subs    map[message.WIHandle]map[chan idtoken.Token]struct{}
	// digests holds the digests of artifacts by task and destination.
	digests map[string]map[string]string
	// claims reports whether the claims of an identity contain digests, as the servers answered to this agent.
	claims map[message.WIHandle]bool
}

// New returns a Manager for the named identities of the allocation's tasks and services.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg:     cfg,
		turn:    make(chan struct{}, 1),
		more:    wake.New(),
		tokens:  map[message.WIHandle]*message.SignedWorkloadIdentity{},
		renewAt: map[message.WIHandle]time.Time{},
		subs:    map[message.WIHandle]map[chan idtoken.Token]struct{}{},
		digests: map[string]map[string]string{},
		claims:  map[message.WIHandle]bool{},
	}
	m.asked = requests(cfg, cfg.Alloc)
	return m
}

// requests returns the requests for the identities of an allocation.
func requests(cfg Config, a *nomad.Allocation) (out []*message.WorkloadIdentityRequest) {
	seen := map[message.WIHandle]bool{}
	add := func(h message.WIHandle) {
		if seen[h] {
			return
		}
		seen[h] = true
		out = append(out, &message.WorkloadIdentityRequest{AllocID: a.ID, WIHandle: h})
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return nil
	}
	for _, task := range group.Tasks {
		for _, id := range task.Identities {
			add(TaskHandle(task.Name, id.Name))
		}
	}
	for _, s := range Services(a, cfg.Node, cfg.Region) {
		add(s.Handle())
	}
	return out
}

// TaskHandle returns the handle of an identity of a task.
func TaskHandle(task, identity string) message.WIHandle {
	return message.WIHandle{
		IdentityName: identity, WorkloadIdentifier: task, WorkloadType: message.WorkloadTypeTask,
	}
}

// Default returns the default token of a task, which is part of the allocation.
func (m *Manager) Default(task string) idtoken.Token {
	return idtoken.New(m.cfg.Alloc.SignedIdentities[task], m.cfg.Alloc.SigningKeyID)
}

// Prepare provides a token of every named identity, from the store or from the servers. It
// waits for the servers for a limited time. Stored tokens that have expired belong to running
// tasks: Prepare does not wait for new ones, and Run renews them at once.
func (m *Manager) Prepare(ctx context.Context) error {
	asked := m.requests()
	if len(asked) == 0 {
		return nil
	}
	stored, err := m.cfg.Store.Identities(m.cfg.Alloc.ID)
	if err != nil {
		m.cfg.Log.Warn("read stored identities, fetching new ones",
			"alloc", m.cfg.Alloc.ID, "err", err)
	}
	if covers(stored, asked, message.WorkloadTypeTask) {
		m.publish(only(stored, asked))
		return nil
	}
	return m.first(ctx)
}

// tasksCovered reports whether every identity of a task has a token.
func (m *Manager) tasksCovered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return covers(slices.Collect(maps.Values(m.tokens)), m.asked, message.WorkloadTypeTask)
}

// requests returns the requests for the current identities.
func (m *Manager) requests() []*message.WorkloadIdentityRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// first fetches tokens for an allocation without any. It retries unless the servers refuse the
// request.
func (m *Manager) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	again := backoff.Backoff{Min: retryFirst, Max: retryFirstMax}
	for {
		err := m.fetch(ctx, m.requests())
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errRejected) && m.tasksCovered():
			m.cfg.Log.Warn("identities of services are missing, retrying", "alloc", m.cfg.Alloc.ID, "err", err)
			return nil
		case errors.Is(err, errRejected):
			return err
		}
		wait := again.Next()
		if backoff.Sleep(ctx, wait/2+jitter(wait/2)) != nil {
			return err
		}
		m.cfg.Log.Debug("fetch identities, retrying", "alloc", m.cfg.Alloc.ID, "err", err)
	}
}

// Downloaded reports the digests of a task's artifacts, by destination. It fetches new tokens for those
// named identities of the task whose claims contain the digests. Stored tokens of an earlier agent may contain
// them too.
func (m *Manager) Downloaded(ctx context.Context, task string, digests map[string]string) error {
	m.mu.Lock()
	m.digests[task] = digests
	m.mu.Unlock()
	asked := m.claiming(task)
	if len(asked) == 0 || len(digests) == 0 {
		return nil
	}
	return m.fetch(ctx, asked)
}

// claiming returns the identities of a task whose claims contain digests, or may contain them.
func (m *Manager) claiming(task string) []*message.WorkloadIdentityRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*message.WorkloadIdentityRequest
	for _, id := range m.asked {
		if contains, listed := m.claims[id.WIHandle]; id.WorkloadIdentifier == task && (contains || !listed) {
			out = append(out, id)
		}
	}
	return out
}

// Watch returns a channel that receives the current token of an identity, unless it has
// expired, and then each newer one. The returned function ends the subscription.
func (m *Manager) Watch(h message.WIHandle) (<-chan idtoken.Token, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch := make(chan idtoken.Token, 1)
	if id := m.tokens[h]; id != nil && alive(id, time.Now()) {
		ch <- idtoken.New(id.JWT, "")
	}
	if m.subs[h] == nil {
		m.subs[h] = map[chan idtoken.Token]struct{}{}
	}
	m.subs[h][ch] = struct{}{}
	return ch, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.subs[h], ch)
	}
}

// fetch gets tokens from the servers, and stores and publishes them.
func (m *Manager) fetch(ctx context.Context, asked []*message.WorkloadIdentityRequest) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ids, err := m.sign(ctx, asked)
	if len(ids) > 0 {
		m.keep(ids)
	}
	if err != nil {
		return fmt.Errorf("sign identities of allocation %s: %w", m.cfg.Alloc.ID, err)
	}
	return nil
}

// keep stores and publishes new tokens. The caller holds turn.
func (m *Manager) keep(ids []*message.SignedWorkloadIdentity) {
	ids = only(ids, m.requests())
	if err := m.cfg.Store.PutIdentities(m.cfg.Alloc.ID, m.with(ids)); err != nil {
		// The tokens are valid anyway: a restarted agent fetches new ones.
		m.cfg.Log.Warn("store identities", "alloc", m.cfg.Alloc.ID, "err", err)
	}
	m.publish(ids)
}

// with returns ids and the held tokens of all other identities.
func (m *Manager) with(ids []*message.SignedWorkloadIdentity) []*message.SignedWorkloadIdentity {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.tokens)
	for _, id := range ids {
		all[id.WIHandle] = id
	}
	return slices.Collect(maps.Values(all))
}

// sign requests the tokens. It returns an error unless there is one token per identity. If the servers refuse some of the
// identities, it also returns the tokens of the others.
func (m *Manager) sign(ctx context.Context, asked []*message.WorkloadIdentityRequest) ([]*message.SignedWorkloadIdentity, error) {
	m.mu.Lock()
	digests := maps.Clone(m.digests)
	m.mu.Unlock()
	req := &message.AllocIdentitiesRequest{
		Identities: asked, ArtifactDigests: digests,
		QueryOptions: message.QueryOptions{
			Region: m.cfg.Region, Namespace: m.cfg.Alloc.Namespace, AllowStale: true,
			MinQueryIndex: max(m.cfg.Alloc.CreateIndex, 1) - 1,
		},
	}
	var resp message.AllocIdentitiesResponse
	if err := m.cfg.RPC.Call(ctx, "Alloc.SignIdentities", req, &resp); err != nil {
		return nil, err
	}
	var errs []error
	for _, r := range resp.Rejections {
		errs = append(errs, fmt.Errorf("identity %q of %q: %s", r.IdentityName, r.WorkloadIdentifier, r.Reason))
	}
	if len(errs) > 0 {
		return resp.SignedIdentities, fmt.Errorf("%w: %w", errRejected, errors.Join(errs...))
	}
	if !complete(resp.SignedIdentities, asked) {
		return nil, fmt.Errorf("%w: got %d tokens for %d identities", errRejected, len(resp.SignedIdentities), len(asked))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range asked {
		m.claims[id.WIHandle] = slices.Contains(resp.DigestClaims, id.WIHandle)
	}
	return resp.SignedIdentities, nil
}

// complete reports whether ids holds a token of every requested identity, and no others.
func complete(ids []*message.SignedWorkloadIdentity, asked []*message.WorkloadIdentityRequest) bool {
	return len(ids) == len(asked) && covers(ids, asked, message.WorkloadTypeTask) && covers(ids, asked, message.WorkloadTypeService)
}

// covers reports whether ids holds a token of every requested identity of a type of workload.
func covers(ids []*message.SignedWorkloadIdentity, asked []*message.WorkloadIdentityRequest, of message.WorkloadType) bool {
	have := map[message.WIHandle]bool{}
	for _, id := range ids {
		have[id.WIHandle] = id.JWT != ""
	}
	for _, want := range asked {
		if want.WorkloadType == of && !have[want.WIHandle] {
			return false
		}
	}
	return true
}

// only returns the tokens of ids that are requested.
func only(ids []*message.SignedWorkloadIdentity, asked []*message.WorkloadIdentityRequest) (out []*message.SignedWorkloadIdentity) {
	for _, id := range ids {
		if slices.ContainsFunc(asked, func(r *message.WorkloadIdentityRequest) bool { return r.WIHandle == id.WIHandle }) {
			out = append(out, id)
		}
	}
	return out
}

// alive reports whether a token has not expired.
func alive(id *message.SignedWorkloadIdentity, now time.Time) bool {
	return id.Expiration.IsZero() || id.Expiration.After(now)
}

// publish sets the tokens and sends them to their subscribers.
func (m *Manager) publish(ids []*message.SignedWorkloadIdentity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.tokens[id.WIHandle] = id
		delete(m.renewAt, id.WIHandle)
		if !id.Expiration.IsZero() {
			m.renewAt[id.WIHandle] = time.Now().Add(time.Until(id.Expiration) / 2)
		}
		for ch := range m.subs[id.WIHandle] {
			select {
			case <-ch: // an older token that was not received
			default:
			}
			ch <- idtoken.New(id.JWT, "") // never blocks: only publish sends, under the mutex
		}
	}
}
