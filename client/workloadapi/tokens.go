package workloadapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// Limits of the JWT-SVIDs of one task.
const (
	maxTokens   = 64 // held for later requests
	tokenRate   = 20 // requests to the servers per second
	tokenBursts = 40
)

var (
	errAudience = errors.New("the request must have audiences within the limits")
	errTooMany  = errors.New("the task requests too many JWT-SVIDs")
)

// token is a JWT-SVID.
type token struct {
	id, raw string
	half    time.Time // after it, a new one is requested
	expires time.Time
}

// tokens holds the JWT-SVIDs of a task until half of their lifetime has passed, so that a task may
// request one for each of its own requests.
type tokens struct {
	task  Task
	limit *rate.Limiter

	mu      sync.Mutex
	current map[string]token // by audiences
}

func newTokens(t Task) *tokens {
	return &tokens{task: t, limit: rate.NewLimiter(tokenRate, tokenBursts), current: map[string]token{}}
}

// get returns a JWT-SVID for the audiences. While the servers cannot be reached, it is one that has not
// expired.
func (t *tokens) get(ctx context.Context, audience []string) (token, error) {
	if err := checkAudience(audience); err != nil {
		return token{}, err
	}
	key, now := strings.Join(audience, "\x00"), time.Now()
	t.mu.Lock()
	old, ok := t.current[key]
	t.mu.Unlock()
	if ok && now.Before(old.half) {
		return old, nil
	}
	if !t.limit.Allow() {
		return token{}, errTooMany
	}
	next, err := t.fetch(ctx, audience)
	if err != nil && ok && now.Before(old.expires) {
		t.task.Log.Warn("fetch JWT-SVID: the old one stays in use", "err", err)
		return old, nil
	}
	if err != nil {
		return token{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.current) >= maxTokens {
		clear(t.current)
	}
	t.current[key] = next
	return next, nil
}

func (t *tokens) fetch(ctx context.Context, audience []string) (token, error) {
	req := &message.SpiffeJWTRequest{AllocID: t.task.Alloc.ID, Task: t.task.Task.Name, Audience: audience, QueryOptions: t.task.query()}
	var resp message.SpiffeJWTResponse
	now := time.Now()
	if err := t.task.RPC.Call(ctx, "Spiffe.SignJWT", req, &resp); err != nil {
		return token{}, err
	}
	return token{id: resp.ID, raw: resp.JWT, half: now.Add(resp.Expires.Sub(now) / 2), expires: resp.Expires}, nil
}

// checkAudience repeats the check of the servers, so that a faulty request costs them nothing.
func checkAudience(audience []string) error {
	if len(audience) == 0 || len(audience) > spiffe.MaxAudiences {
		return errAudience
	}
	for i, a := range audience {
		if a == "" || len(a) > spiffe.MaxAudience || strings.ContainsRune(a, 0) || slices.Contains(audience[:i], a) {
			return errAudience
		}
	}
	return nil
}
