package taskrunner

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/secret"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// region has the variable k=v, which it does not read while it has no leader, and the tag of the only service.
type region struct {
	mu         sync.Mutex
	leaderless bool
	tag        string
}

func (s *region) Call(_ context.Context, _ string, req, resp any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req := req.(type) {
	case *message.VariablesReadRequest:
		if s.leaderless {
			return apierror.ErrNoLeader
		}
		resp.(*message.VariablesReadResponse).Data = &variable.Decrypted{Items: map[string]string{"k": "v"}}
	case *message.ServiceRegistrationUpsertRequest:
		s.tag = req.Services[0].Tags[0]
	}
	return nil
}

func (s *region) setLeaderless(leaderless bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderless = leaderless
}

func (s *region) registered() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tag
}

// poststart calls a function at each start, before the services are registered.
type poststart func()

func (poststart) Name() string { return "poststart" }

func (f poststart) Poststart(context.Context, *taskhook.TaskPoststartRequest, *taskhook.TaskPoststartResponse) error {
	f()
	return nil
}

// tagged returns a task whose service has the tag <${secret.s.k}>, and its servers.
func tagged(ctx context.Context, t *testing.T) (*house, *region) {
	t.Helper()
	h, s := newHouse(t, map[string]any{"run_for": "10h"}), &region{}
	task := h.alloc.Job.TaskGroups[0].Tasks[0]
	task.Secrets = []*nomad.Secret{{Name: "s", Provider: nomad.SecretProviderNomad, Path: "p"}}
	task.Services = []*nomad.Service{{Name: "web", Provider: nomad.ServiceProviderNomad, Tags: []string{"<${secret.s.k}>"}}}
	h.deps.Secrets = &secret.Node{RPC: s, NomadRetry: render.Retry{Backoff: time.Second, MaxBackoff: time.Second}}
	h.deps.Services = service.New(s, slog.New(slog.DiscardHandler))
	go h.deps.Services.Run(ctx) //nolint:errcheck // it ends with ctx
	return h, s
}

// The services of a running task get the values that a restarted agent reads late.
func TestSecrets_LateInServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		h, s := tagged(ctx, t)
		shutdown, ended := begin(t, h.runner(nil, nil))
		time.Sleep(time.Minute)
		if got := s.registered(); got != "<v>" {
			t.Errorf("tag %q after the start", got)
		}
		shutdown()
		<-ended
		s.setLeaderless(true)
		r := h.restored(nil, nil)
		_, ended = begin(t, r)
		time.Sleep(time.Minute)
		s.setLeaderless(false)
		time.Sleep(time.Minute)
		if got := s.registered(); got != "<v>" {
			t.Errorf("tag %q after the outage", got)
		}
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
}

// The same if the values come just before the services are registered.
func TestSecrets_DuringPoststart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		h, s := tagged(ctx, t)
		shutdown, ended := begin(t, h.runner(nil, nil))
		shutdown()
		<-ended
		s.setLeaderless(true)
		var r *Runner
		var late hook.Hook = poststart(func() { r.SetSecrets(map[string]string{"s.k": "v"}) })
		r = h.restored(late, nil)
		_, ended = begin(t, r)
		time.Sleep(time.Minute)
		if got := s.registered(); got != "<v>" {
			t.Errorf("tag %q", got)
		}
		if err := r.Kill(t.Context(), codec.Copy(killEvent)); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
}
