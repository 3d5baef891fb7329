// Package catalogue is the part of the service catalog that a node needs to answer questions about services: the
// instances of the names that somebody on the node asks for. Answers come from memory. client/dns asks; nomad/catalog has
// the types.
//
//	(none) ──Instances──▶ pending ──fetched──▶ fresh ──no answer for MaxStale──▶ stale
//	                         │                  ▲ │                               │
//	                         │                  └─┴────────── answer ◀────────────┘
//	                         └───── not asked for 10 minutes, or evicted ───▶ (none)
//
// The first question for a name fetches it, together with the other new names. Then one blocking call of
// ServiceRegistration.Watch keeps all names fresh. A name without instances is an entry too, so that the servers are
// not asked again for it. At most MaxNames names are kept. Then the least recently used one is evicted: one without
// instances if there are many of them, so that questions for invented names do not evict services.
//
// During an outage of the servers the last answers are used. The age of an entry is the time since the last successful
// call that included it, plus the time since the answering server had contact with the leader. Past MaxStale, Instances
// returns ErrUnavailable.
//
// Run has one goroutine for the blocking call, one that ends it when the names change, and one for new names. A mutex
// guards the entries; nothing slow happens under it.
package catalogue

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits of the cache.
const (
	// MaxNames is the maximum number of names.
	MaxNames = 4096
	// minAbsent is the number of names without instances that stay when the cache is full.
	minAbsent = MaxNames / 8
	// DefaultMaxStale is the default of Config.MaxStale.
	DefaultMaxStale = time.Hour
	// MinMaxStale is the lowest useful MaxStale. A blocking call takes up to half of it.
	MinMaxStale = 10 * time.Second
	// idleAfter is the time without a question after which a name is dropped.
	idleAfter = 10 * time.Minute
	// firstWait is how long the first question for a name waits for its answer.
	firstWait = 2 * time.Second
)

// ErrUnavailable means that no server has answered for the name, or not for MaxStale.
var ErrUnavailable = errors.New("the servers have not answered for the service")

// Servers carries calls to the servers.
type Servers interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Config configures a Cache.
type Config struct {
	Servers Servers
	// MaxStale is the maximum age of an answer. Zero is DefaultMaxStale.
	MaxStale time.Duration
	Log      *slog.Logger
}

// Cache has the instances of the names in use.
type Cache struct {
	cfg     Config
	pending wake.Signal // there are names without an answer
	changed wake.Signal // there are names that the blocking call does not include

	mu      sync.Mutex
	entries map[name]*entry
	recent  *list.List // of *entry with instances, the most recently used first
	absent  *list.List // of *entry without instances or without an answer, in the same order
	failing bool       // the last fetch of new names failed
}

// name identifies a service.
type name struct{ namespace, service string }

// entry is a service with the last answer of the servers.
type entry struct {
	name
	version   string
	instances []*catalog.Instance
	asked     time.Time
	answered  time.Time     // zero before the first answer
	ready     chan struct{} // closed with the first answer
	element   *list.Element // in Cache.recent or Cache.absent
	present   bool          // in Cache.recent
}

// New returns an empty Cache. Run keeps it fresh.
func New(cfg Config) *Cache {
	if cfg.MaxStale <= 0 {
		cfg.MaxStale = DefaultMaxStale
	}
	return &Cache{cfg: cfg, pending: wake.New(), changed: wake.New(),
		entries: map[name]*entry{}, recent: list.New(), absent: list.New()}
}

// Instances returns the instances of a service, none if it does not exist. The first question for a name waits for the
// servers, 2 seconds at most. The caller must not modify the result. The error is ErrUnavailable, or that of ctx.
func (c *Cache) Instances(ctx context.Context, namespace, service string) ([]*catalog.Instance, error) {
	e, wait := c.use(name{namespace, service})
	if wait {
		timer := time.NewTimer(firstWait)
		defer timer.Stop()
		select {
		case <-e.ready:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.answered.IsZero() || time.Since(e.answered) > c.cfg.MaxStale {
		return nil, ErrUnavailable
	}
	return e.instances, nil
}

// Size returns the number of names.
func (c *Cache) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// use returns the entry of a name. It is new if nobody has asked for the name yet. wait reports whether an answer is
// likely soon.
func (c *Cache) use(n name) (e *entry, wait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.entries[n]
	if e == nil {
		e = c.add(n)
	}
	e.asked = time.Now()
	c.order(e).MoveToFront(e.element)
	return e, e.answered.IsZero() && !c.failing
}

// add adds a name, and evicts the least recently used one if there are too many. c.mu is locked.
func (c *Cache) add(n name) *entry {
	if len(c.entries) >= MaxNames {
		c.evict()
	}
	e := &entry{name: n, ready: make(chan struct{})}
	e.element = c.absent.PushFront(e)
	c.entries[n] = e
	c.pending.Send()
	return e
}

// evict removes one entry of a full cache. c.mu is locked.
func (c *Cache) evict() {
	from := c.recent
	if c.absent.Len() >= minAbsent {
		from = c.absent
	}
	c.remove(from.Back().Value.(*entry))
}

// order returns the list that has an entry. c.mu is locked.
func (c *Cache) order(e *entry) *list.List {
	if e.present {
		return c.recent
	}
	return c.absent
}

// set stores an answer. c.mu is locked.
func (c *Cache) set(e *entry, s *message.ServiceState) {
	e.version, e.instances = s.Version, s.Instances
	if present := len(s.Instances) > 0; present != e.present {
		c.order(e).Remove(e.element)
		e.present = present
		e.element = insert(c.order(e), e)
	}
}

// insert inserts an entry by the time of its last question.
func insert(l *list.List, e *entry) *list.Element {
	for other := l.Front(); other != nil; other = other.Next() {
		if !other.Value.(*entry).asked.After(e.asked) {
			return l.InsertBefore(e, other)
		}
	}
	return l.PushBack(e)
}

// remove removes an entry. c.mu is locked.
func (c *Cache) remove(e *entry) {
	delete(c.entries, e.name)
	c.order(e).Remove(e.element)
}

// sweep drops names that nobody asks for. c.mu is locked.
func (c *Cache) sweep() {
	for _, l := range []*list.List{c.recent, c.absent} {
		for last := l.Back(); last != nil && time.Since(last.Value.(*entry).asked) >= idleAfter; last = l.Back() {
			c.remove(last.Value.(*entry))
		}
	}
}

// unanswered returns the names without an answer.
func (c *Cache) unanswered() []message.ServiceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	return c.list(func(e *entry) bool { return e.answered.IsZero() })
}

// known returns the names with an answer, and the versions of the answers.
func (c *Cache) known() []message.ServiceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	return c.list(func(e *entry) bool { return !e.answered.IsZero() })
}

// list returns entries in the form of a request. c.mu is locked.
func (c *Cache) list(selects func(*entry) bool) []message.ServiceVersion {
	var names []message.ServiceVersion
	for _, e := range c.entries {
		if selects(e) {
			names = append(names, message.ServiceVersion{Namespace: e.namespace, Name: e.service, Version: e.version})
		}
	}
	return names
}
