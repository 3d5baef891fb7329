package login

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
)

// Failure is a failed request for a token. Its text contains no secret.
type Failure struct {
	Cause    string
	Refused  bool // a retry alone does not help
	Answered bool // the product has answered
}

func (f *Failure) Error() string { return f.Cause }

// Unanswered returns the failure for an error without an answer of a product.
func Unanswered(product string, err error) *Failure {
	if timeout := (interface{ Timeout() bool })(nil); errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return &Failure{Cause: product + " does not answer"}
	}
	return &Failure{Cause: product + " is unreachable"}
}

// Retry paces the failed logins of one workload, and decides which of them are reported.
type Retry struct {
	unanswered, refused backoff.Backoff
	notBefore           time.Time
	reported            map[string]bool // causes since the last success
}

// NewRetry returns a Retry. A refused login is repeated later than others, because it needs an operator of the product.
func NewRetry() *Retry {
	return &Retry{unanswered: backoff.Backoff{Min: time.Second, Max: time.Minute}, refused: backoff.Backoff{Min: 15 * time.Second, Max: 5 * time.Minute},
		reported: map[string]bool{}}
}

// Remaining returns the time until the next attempt, negative if it is due.
func (r *Retry) Remaining() time.Duration { return time.Until(r.notBefore) }

// Hold delays the next attempt by d, without a failure.
func (r *Retry) Hold(d time.Duration) { r.notBefore = time.Now().Add(d) }

// Now allows an attempt at once, because what failed before has changed.
func (r *Retry) Now() { r.notBefore = time.Time{} }

// Pause begins the pause after a failure, and returns it.
func (r *Retry) Pause(f *Failure) time.Duration {
	wait := r.of(f).Next()
	wait = wait/2 + rand.N(wait/2+1)
	r.notBefore = time.Now().Add(wait)
	return wait
}

// Every returns the longest pause after failures like f.
func (r *Retry) Every(f *Failure) time.Duration { return r.of(f).Max }

func (r *Retry) of(f *Failure) *backoff.Backoff {
	if f.Refused {
		return &r.refused
	}
	return &r.unanswered
}

// Reset ends the pauses after a success.
func (r *Retry) Reset() {
	r.unanswered.Reset()
	r.refused.Reset()
}

// Report reports whether the cause of a failure is a new one since the last success.
func (r *Retry) Report(f *Failure) bool {
	seen := r.reported[f.Cause]
	r.reported[f.Cause] = true
	return !seen
}

// Recovered reports whether causes were reported since the last success, and removes them.
func (r *Retry) Recovered() bool {
	defer clear(r.reported)
	return len(r.reported) > 0
}
