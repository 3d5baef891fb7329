// Package reconcile keeps the services and checks of this agent in the local agent of Consul.
//
// The connection is in one of these states:
//
//	asking ──agent/self answers──▶ listing ──services and checks──▶ up ──a list fails──▶ down
//	   └─after 1 s, doubling to 20 s─┘                               ▲                     │
//	                                                                 └─────a list works────┘
//
// A list is requested every 30 s, at once after Refresh and a request without an answer, and while it fails after 1 s for each
// failure in a row, up to 30 s. Services are only registered while the state is up.
//
// A service is in one of these states:
//
//	Set ──▶ compare ──equal──▶ settled ──▶ drift, change or renew ──registered──▶ settled
//	  │        └──different──▶ drift
//	  └───▶ change
//	each ──Remove, Drop, Set without it──▶ unwanted ──acknowledged──▶ gone ──absent 10 s later──▶ forgotten
//	                                          ▲────────in a list───────┘
//
//	compare  Consul may have it from an earlier process: the next list decides, and what is equal is not sent again
//	settled  Consul has it as it is wanted
//	drift    a list differs; it is registered with the tags of Consul if EnableTagOverride is set
//	change   Set made or changed it; it is registered with its own tags
//	renew    its token has changed; it is registered
//	unwanted it is removed: at once after Remove and Drop, after the new services of its owner otherwise
//
// A service that failed is tried again after 1 s for each failure in a row, up to 30 s. The others go on.
//
// Tokens: a service is registered with its own token if it has one, and never with the agent's then. Consul keeps this
// token and uses it later, so a service is registered again when its token has changed, which is compared every second.
// Lists and removals use the token of the agent, removals after status 403 that of the service.
//
// Consul leaves out of its lists what the token of the agent may not read. Such services are registered with each list, and a
// line in the log names the right.
//
// Ownership: a leftover is a service with the ID of a task that nobody wants. It is removed one minute after the start,
// if Config.Reap is set and Config.Owns reports that its allocation was placed on this node. So two agents on one Consul
// do not remove the services of each other, and those of another orchestrator stay. The registration itself does not
// name its owner, because it has to equal the one of other implementations. Nothing else is ever removed: sidecars
// without their service, services of agents, and checks without the prefix of an orchestrator's checks stay. An
// implementation without Owns may remove what this one registered, and it is registered again with the next list. A
// removal that Consul never acknowledged is lost if the agent is killed after it forgot the allocation.
//
// Goroutines: Run starts the requests of three lanes: removals, at most 64; registrations, 4; updates of TTL checks, 4.
// So a slow registration delays no removal. One more lists, one polls checks while anything is watched, and one compares
// tokens. All end with Run. There is at most one request for a service at a time. A removal cancels a registration that
// is in progress. Since Consul may complete that later, the removal is confirmed by lists.
//
// Set, Update and the others only change memory. Run makes all requests, and the calls of Config.Failed and of the log.
//
// It never keeps anything on disk, never logs a token or the output of a check, and never calls a function of its
// callers with its mutex locked.
package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/wake"
)

const (
	syncEvery = 30 * time.Second
	maxRetry  = 30 * time.Second
	retryUnit = time.Second
	probation = time.Minute
	// confirmAfter is the age of a removal that an absence in a list confirms.
	confirmAfter = 10 * time.Second
	// reportAfter is the number of failures in a row that are reported.
	reportAfter = 3
)

// Service is a service that is wanted in Consul. It must not be modified after Set.
type Service struct {
	// Registration has the ID, and its Checks have a CheckID each.
	Registration *api.AgentServiceRegistration
	// Token returns the token that registers the service and updates its TTL checks. nil means the token of the agent.
	// While it returns "", the service waits: it is never registered with another token.
	Token func() string
	// Unknown is called with a token of Token that Consul does not have. It must not block. nil for none.
	Unknown func(token string)
}

// State is how far a service is registered.
type State struct {
	ID, Name   string
	Registered bool      // Consul has it as it is wanted
	Since      time.Time // of Registered, or of the first failure in a row
	Failures   int       // in a row
	Err        error     // of the last attempt, or of the last list, without answers of Consul that could contain a token
}

// Status is the status of a check in Consul.
type Status struct {
	CheckID string
	Status  string // api.HealthPassing, HealthWarning or HealthCritical
	Output  string
}

// Config configures a Reconciler.
type Config struct {
	Agent *consul.Agent
	// Reap removes services of tasks that nobody wants, such as those of an earlier agent that was killed. Only an agent
	// with a client does so.
	Reap bool
	// Owns reports whether an allocation was ever placed on this node, and all of its services that have to be registered are
	// wanted already. Only services of such allocations are leftovers. It may block. nil: of none.
	Owns func(alloc string) bool
	// Failed is called after the third failed attempt in a row for services, and again after the success that follows. The
	// services of an owner within one second are one call: all of them have failed, or are registered. It must not block.
	// nil for none.
	Failed func(owner string, list []State)
	Log    *slog.Logger
}

// Reconciler is the desired state of this agent. Its methods may be called concurrently, also before and after Run.
type Reconciler struct {
	cfg   Config
	wake  wake.Signal
	polls wake.Signal

	mu      sync.Mutex
	items   map[string]*item    // by service ID
	owners  map[string][]string // IDs in the order of Set
	ttls    map[string]*update  // by check ID
	watches map[*watch]struct{}
	calls   []func() // that Run makes without mu, in order
	reports []batch
	seq     uint64 // of changes and requests
	inUse   [lanes]int

	running  bool
	started  time.Time       // of Run
	answered bool            // by agent/self
	listed   bool            // services and checks
	listErr  error           // of the last list
	others   map[string]bool // IDs of the last list that are not in items
	syncing  bool
	refresh  bool      // another list follows the one in progress
	syncAt   time.Time // of the next list
	syncedAt time.Time // when the last one began
	failures int       // of lists, in a row
	unlisted bool      // lists do not have registered services
	asking   backoff.Backoff
	reportAt time.Time // when reports are due, zero for none
}

// New returns a Reconciler without services.
func New(cfg Config) *Reconciler {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{cfg: cfg, wake: wake.New(), polls: wake.New(), items: map[string]*item{}, owners: map[string][]string{},
		ttls: map[string]*update{}, watches: map[*watch]struct{}{}, asking: backoff.Backoff{Min: retryUnit, Max: 20 * time.Second}}
}

// Run keeps Consul as wanted until ctx ends. It deregisters nothing at its end.
func (r *Reconciler) Run(ctx context.Context) error {
	r.mu.Lock()
	r.running, r.started = true, time.Now()
	r.mu.Unlock()
	var wg sync.WaitGroup
	defer r.end()
	defer wg.Wait()
	wg.Go(func() { r.poll(ctx) })
	wg.Go(func() { r.compareTokens(ctx) })
	for {
		next := time.NewTimer(r.dispatch(ctx, &wg))
		r.callOut()
		r.deliverReports()
		select {
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		case <-r.wake:
		case <-next.C:
		}
		next.Stop()
	}
}

// end releases those that wait for a removal.
func (r *Reconciler) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
	for _, i := range r.items {
		i.attempted()
	}
}

// later makes Run call a function without mu. The caller holds mu.
func (r *Reconciler) later(fn func()) {
	r.calls = append(r.calls, fn)
	r.wake.Send()
}

// callOut makes the calls of later.
func (r *Reconciler) callOut() {
	r.mu.Lock()
	calls := r.calls
	r.calls = nil
	r.mu.Unlock()
	for _, fn := range calls {
		fn()
	}
}

// touch records a change of a service, or the end of a request about it. The caller holds mu.
func (r *Reconciler) touch(i *item) {
	r.seq++
	i.touched = r.seq
}

// syncSoon makes the next list due, at most one per second. The caller holds mu.
func (r *Reconciler) syncSoon() {
	if at := r.syncedAt.Add(retryUnit); r.listErr == nil && r.answered && at.Before(r.syncAt) {
		r.syncAt = at
	}
}

// retryDelay is the pause after a number of failures in a row.
func retryDelay(failures int) time.Duration { return min(time.Duration(failures)*retryUnit, maxRetry) }

// count increments a counter.
func count(name string, n int) {
	if n > 0 {
		metrics.IncrCounter([]string{"client", "consul", name}, float32(n))
	}
}
