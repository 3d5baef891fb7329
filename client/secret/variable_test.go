package secret

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// servers answer with the errors in order, and then with the items.
type servers struct {
	errs  []error
	items map[string]string
	calls []string
}

func (s *servers) Call(_ context.Context, method string, req, resp any) error {
	r := req.(*message.VariablesReadRequest)
	s.calls = append(s.calls, fmt.Sprintf("%s %s@%s.%s %s", method, r.Path, r.Namespace, r.Region, r.AuthToken))
	if i := len(s.calls) - 1; i < len(s.errs) {
		if s.errs[i] != nil {
			return s.errs[i]
		}
		return nil // without the variable
	}
	resp.(*message.VariablesReadResponse).Data = &variable.Decrypted{Items: s.items}
	return nil
}

// block is a secret block of a variable.
func block() *nomad.Secret {
	return &nomad.Secret{Name: "s", Provider: "nomad", Path: "nomad/jobs/${NOMAD_TASK_NAME}"}
}

// read fetches blocks from servers, and returns the reported reasons to wait too.
func (s *servers) read(ctx context.Context, retry render.Retry, list ...*nomad.Secret) (got map[string]string, waits []string, err error) {
	n := &Node{RPC: s, Region: "global", NomadRetry: retry}
	got, err = n.Fetch(ctx, &Task{Namespace: "prod", Secrets: list, Env: environment(), Identity: func() string { return "jwt" },
		Waits: func(reason string) { waits = append(waits, reason) }})
	return got, waits, err
}

func TestVariable(t *testing.T) {
	odd := " # \"x\"\n${NOMAD_TASK_NAME} "
	s := &servers{items: map[string]string{"a": odd, "b.c": ""}}
	other := block()
	other.Name, other.Config = "o", map[string]any{"namespace": "${NOMAD_NAMESPACE}-x"}
	got, waits, err := s.read(t.Context(), render.Retry{}, block(), other)
	if err != nil || len(got) != 4 || got["s.a"] != odd || got["o.a"] != odd || len(waits) > 0 {
		t.Errorf("Fetch = %q, %v, %v", got, waits, err)
	}
	want := []string{"Variables.Read nomad/jobs/web@prod.global jwt", "Variables.Read nomad/jobs/web@prod-x.global jwt"}
	if !slices.Equal(s.calls, want) {
		t.Errorf("calls %q, want %q", s.calls, want)
	}
}

// The reasons to wait of each kind of failure: one event each, no end without a limit, the servers' texts are not repeated.
func TestVariable_Waits(t *testing.T) {
	const name = "nomad.var.block(nomad/jobs/web@prod.global)"
	for title, row := range map[string]struct {
		err  error
		want string
	}{
		"no variable":   {nil, "Missing: " + name},
		"404":           {apierror.Errorf(404, "variable canary not found"), "Missing: " + name},
		"denied":        {apierror.Denied("canary"), "cannot read " + name + ": the identity of the task has no right to read the variable: allow it"},
		"remote 403":    {apierror.FromText(apierror.ErrPermissionDenied.Error()), "cannot read " + name + ": the identity of the task has no right"},
		"no leader":     {apierror.ErrNoLeader, "cannot read " + name + ": the servers do not answer, or with an error (status 500)"},
		"lost":          {fmt.Errorf("%w: canary", apierror.ErrLost), "cannot read " + name + ": the servers do not answer"},
		"unreachable":   {errors.New("dial canary: connection refused"), "cannot read " + name + ": the servers do not answer"},
		"token expired": {apierror.ErrTokenExpired, "cannot read " + name + ": the servers do not answer, or with an error (status 403)"},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &servers{items: map[string]string{"k": "v"}, errs: slices.Repeat([]error{row.err}, 100)}
				begun := time.Now()
				got, waits, err := s.read(t.Context(), render.Retry{Backoff: 250 * time.Millisecond, MaxBackoff: time.Minute}, block())
				if err != nil || got["s.k"] != "v" {
					t.Errorf("Fetch = %q, %v", got, err)
				}
				if len(waits) != 1 || !strings.HasPrefix(waits[0], row.want) || strings.Contains(waits[0], "canary") {
					t.Errorf("reasons %q, want one: %s", waits, row.want)
				}
				if d := time.Since(begun); d < 20*time.Minute || d > 100*time.Minute {
					t.Errorf("100 failures took %v", d)
				}
			})
		})
	}
}

// A short change of the leader is not reported.
func TestVariable_LeaderChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{items: map[string]string{"k": "v"}, errs: slices.Repeat([]error{apierror.ErrNoLeader}, 3)}
		got, waits, err := s.read(t.Context(), render.Retry{Attempts: 12, Backoff: 250 * time.Millisecond}, block())
		if err != nil || got["s.k"] != "v" || len(waits) > 0 {
			t.Errorf("Fetch = %q, %v, %v", got, waits, err)
		}
	})
}

// The attempts of the client end a read. An answer, also that the variable does not exist, begins anew.
func TestVariable_Attempts(t *testing.T) {
	denied := apierror.Denied("no")
	for title, row := range map[string]struct {
		errs     []error
		attempts int
		calls    int
		ok       bool
	}{
		"as many":         {slices.Repeat([]error{denied}, 3), 3, 4, true},
		"one more":        {slices.Repeat([]error{denied}, 9), 3, 4, false},
		"outage":          {slices.Repeat([]error{apierror.ErrNoLeader}, 9), 1, 2, false},
		"missing":         {slices.Repeat([]error{nil}, 50), 1, 51, true},
		"missing between": {[]error{denied, denied, nil, denied, denied}, 2, 6, true},
		"unlimited":       {slices.Repeat([]error{denied}, 50), 0, 51, true},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &servers{items: map[string]string{"k": "v"}, errs: row.errs}
				_, _, err := s.read(t.Context(), render.Retry{Attempts: row.attempts, Backoff: time.Second, MaxBackoff: time.Second}, block())
				if len(s.calls) != row.calls {
					t.Errorf("%d calls, want %d", len(s.calls), row.calls)
				}
				if spent := (*Spent)(nil); (err == nil) != row.ok || err != nil && (!errors.As(err, &spent) || spent.Attempts != row.calls) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

func TestVariable_Cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		s := &servers{errs: slices.Repeat([]error{apierror.ErrNoLeader}, 10_000)}
		if _, _, err := s.read(ctx, render.Retry{}, block()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}
