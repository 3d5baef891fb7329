package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Limits of a Verifier.
const (
	maxUsed    = 1 << 16 // unexpired tickets
	sweepPause = 15 * time.Second
	// keysFor is how long keys are cached. After that, a removed key verifies nothing.
	keysFor = 5 * time.Minute
	// refreshPause is the minimum time between two fetches for unknown keys.
	refreshPause = time.Second
	askWithin    = 10 * time.Second
)

// errBusy refuses a call because the node cannot record its ticket as used.
var errBusy = apierror.Errorf(429, "too many calls of this node within %v: try again", TTL+Leeway)

// Verifier verifies the tickets that a node receives. It accepts each only once.
type Verifier struct {
	node    string
	fetch   Keys
	now     func() time.Time
	flights singleflight.Group

	mu      sync.Mutex
	keys    map[string]jwt.PublicKey
	fetched time.Time
	missed  time.Time        // the last fetch for an unknown key
	used    map[string]int64 // ticket ID to the Unix time after which the ticket is refused as expired
	swept   time.Time
}

// NewVerifier returns the Verifier of a node.
func NewVerifier(node string, fetch Keys, now func() time.Time) *Verifier {
	return &Verifier{node: node, fetch: fetch, now: now, used: map[string]int64{}}
}

// Verify accepts a ticket for a call of a method on an object. It returns
// apierror.ErrPermissionDenied, except if the keys could not be fetched or the node is busy.
func (v *Verifier) Verify(ctx context.Context, credential, method, object string) (*Ticket, error) {
	raw, ok := strings.CutPrefix(credential, prefix)
	if !ok {
		return nil, refuse("not a ticket")
	}
	c, err := v.read(ctx, raw)
	if err != nil {
		return nil, err
	}
	if err := v.check(c, method, object); err != nil {
		return nil, err
	}
	if err := v.use(c); err != nil {
		return nil, err
	}
	c.Ticket.Node = c.Audience
	return c.Ticket, nil
}

// read returns the claims of a ticket after verifying its signature.
func (v *Verifier) read(ctx context.Context, raw string) (*claims, error) {
	payload, err := v.parse(ctx, raw)
	if err != nil {
		return nil, err
	}
	c := new(claims)
	if err := json.Unmarshal(payload, c); err != nil || c.Ticket == nil {
		return nil, refuse("not readable")
	}
	return c, nil
}

// parse verifies the signature. For an unknown key it fetches the keys from the leader. A shared fetch that began before
// the ticket arrived may lack its key, so that a second one follows.
func (v *Verifier) parse(ctx context.Context, raw string) ([]byte, error) {
	keys, err := v.cached(ctx)
	if err != nil {
		return nil, err
	}
	arrived := v.now()
	payload, _, err := jwt.ParseAs(typ, raw, find(keys))
	for i := 0; errors.Is(err, jwt.ErrUnknownKey) && (i == 0 || i == 1 && v.asked().Before(arrived)); i++ {
		if keys, err = v.flight(ctx, "leader", v.refetch); err != nil {
			return nil, err
		}
		payload, _, err = jwt.ParseAs(typ, raw, find(keys))
	}
	if err != nil {
		return nil, refuse("not signed by the servers of this node")
	}
	return payload, nil
}

func find(keys map[string]jwt.PublicKey) func(kid string) (jwt.PublicKey, bool) {
	return func(kid string) (jwt.PublicKey, bool) {
		key, ok := keys[kid]
		return key, ok
	}
}

// check refuses a ticket for any other call, node or time.
func (v *Verifier) check(c *claims, method, object string) error {
	now := v.now()
	switch {
	case c.Audience != v.node:
		return refuse("for another node")
	case c.Ticket.Method != method:
		return refuse("for another method")
	case object == "" || c.Ticket.Object != object:
		return refuse("for another allocation or node")
	case !nomad.IsUUID(c.ID):
		return refuse("without an ID")
	case c.IssuedAt <= 0 || c.NotBefore < c.IssuedAt || c.Expiry-c.IssuedAt > int64(TTL/time.Second):
		return refuse("valid for too long")
	case c.NotBefore > now.Add(Leeway).Unix():
		return refuse("not valid yet: compare the clocks of the server and the node")
	case c.Expiry <= now.Add(-Leeway).Unix():
		return refuse("expired: compare the clocks of the server and the node")
	}
	return nil
}

// use accepts a ticket once. It accepts none if the record of used tickets is full.
func (v *Verifier) use(c *claims) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if len(v.used) >= maxUsed || now.After(v.swept.Add(sweepPause)) {
		maps.DeleteFunc(v.used, func(_ string, until int64) bool { return now.Unix() > until })
		v.swept = now
	}
	_, used := v.used[c.ID]
	switch {
	case used:
		return refuse("used before")
	case len(v.used) >= maxUsed:
		return errBusy
	}
	v.used[c.ID] = c.Expiry + int64(Leeway/time.Second)
	return nil
}

// cached returns the keys. It fetches them if they are old.
func (v *Verifier) cached(ctx context.Context) (map[string]jwt.PublicKey, error) {
	v.mu.Lock()
	keys, fetched := v.keys, v.fetched
	v.mu.Unlock()
	if keys != nil && v.now().Before(fetched.Add(keysFor)) {
		return keys, nil
	}
	return v.flight(ctx, "any", func(ctx context.Context) (map[string]jwt.PublicKey, error) { return v.refresh(ctx, false) })
}

// asked returns when the last fetch for an unknown key began.
func (v *Verifier) asked() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.missed
}

// refetch fetches the keys of the leader, refreshPause after the last such fetch at the earliest. Callers wait for it:
// a key may have been created since.
func (v *Verifier) refetch(ctx context.Context) (map[string]jwt.PublicKey, error) {
	if wait := v.asked().Add(refreshPause).Sub(v.now()); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	v.mu.Lock()
	v.missed = v.now()
	v.mu.Unlock()
	return v.refresh(ctx, true)
}

func (v *Verifier) refresh(ctx context.Context, fresh bool) (map[string]jwt.PublicKey, error) {
	list, err := v.fetch(ctx, fresh)
	if err != nil {
		return nil, fmt.Errorf("fetch the keys that verify tickets: %w", err)
	}
	keys := make(map[string]jwt.PublicKey, len(list))
	for _, k := range list {
		keys[k.ID] = k
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys, v.fetched = keys, v.now()
	return keys, nil
}

// flight makes concurrent callers share one fetch.
func (v *Verifier) flight(ctx context.Context, name string,
	fetch func(context.Context) (map[string]jwt.PublicKey, error)) (map[string]jwt.PublicKey, error) {
	got := v.flights.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		return fetch(ctx)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-got:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(map[string]jwt.PublicKey), nil
	}
}

// refuse returns the error for a refused ticket.
func refuse(why string) error {
	return apierror.Denied("the ticket of the server is %s", why)
}
