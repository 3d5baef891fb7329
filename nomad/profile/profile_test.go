package profile

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestProfiles(t *testing.T) {
	s := New(true)
	for _, c := range []struct {
		name string
		req  message.AgentPprofRequest
		gzip bool
		want string // part of the payload
	}{
		{name: "heap", req: message.AgentPprofRequest{ReqType: message.ProfileLookup, Profile: "heap", GC: 1}, gzip: true},
		{name: "text", req: message.AgentPprofRequest{ReqType: message.ProfileLookup, Profile: "goroutine", Debug: 2}, want: "TestProfiles"},
		{name: "CPU", req: message.AgentPprofRequest{ReqType: message.ProfileCPU}, gzip: true},
		{name: "trace", req: message.AgentPprofRequest{ReqType: message.ProfileTrace}, want: "trace"},
		{name: "command line", req: message.AgentPprofRequest{ReqType: message.ProfileCmdline}, want: os.Args[0]},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := s.Profile(t.Context(), &c.req)
			if err != nil {
				t.Fatal(err)
			}
			payload := string(out.Payload)
			if c.gzip {
				z, err := gzip.NewReader(strings.NewReader(payload))
				if err != nil {
					t.Fatalf("not a profile: %v", err)
				}
				if _, err := io.Copy(io.Discard, z); err != nil {
					t.Error(err)
				}
			}
			if !strings.Contains(payload, c.want) || out.HTTPHeaders["X-Content-Type-Options"] != "nosniff" {
				t.Errorf("%d bytes without %q, headers %v", len(payload), c.want, out.HTTPHeaders)
			}
		})
	}
}

func TestProfileFailures(t *testing.T) {
	s := New(true)
	for want, req := range map[string]message.AgentPprofRequest{
		"invalid seconds 301": {ReqType: message.ProfileCPU, Seconds: MaxSeconds + 1},
		"invalid seconds -1":  {ReqType: message.ProfileTrace, Seconds: -1},
		`Unknown profile "x"`: {ReqType: message.ProfileLookup, Profile: "x"},
		`unknown type`:        {ReqType: "x"},
	} {
		if _, err := s.Profile(t.Context(), &req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", req, err, want)
		}
	}
	var none *Source
	if _, err := none.Profile(t.Context(), &message.AgentPprofRequest{}); err == nil {
		t.Error("a nil Source has a profile")
	}
}

// One CPU profile or trace runs at a time. It ends with its caller.
func TestOneAtATime(t *testing.T) {
	s := New(true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Profile(ctx, &message.AgentPprofRequest{ReqType: message.ProfileTrace, Seconds: MaxSeconds})
		ended <- err
	}()
	testpace.Until(t, "the trace runs", func() bool { return len(s.busy) == 1 })
	if _, err := s.Profile(t.Context(), &message.AgentPprofRequest{ReqType: message.ProfileCPU}); err == nil ||
		!strings.Contains(err.Error(), "already running") {
		t.Errorf("a second profile: %v", err)
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the trace of a caller that left: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the trace continues without its caller")
	}
	if _, err := s.Profile(t.Context(), &message.AgentPprofRequest{ReqType: message.ProfileCPU}); err != nil {
		t.Errorf("after the trace: %v", err)
	}
}

func TestLargeProfile(t *testing.T) {
	var b bounded
	if _, err := b.Write(make([]byte, maxPayload)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, errLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := b.binary("trace"); err == nil || !strings.Contains(err.Error(), "larger than 12 MiB") {
		t.Errorf("binary() = %v", err)
	}
}

func TestBounded_Copy(t *testing.T) {
	var b bounded
	large := io.LimitReader(zeros{}, maxPayload+1)
	if _, err := io.Copy(&b, large); !errors.Is(err, errLarge) {
		t.Errorf("io.Copy() of one byte too many = %v, want %v", err, errLarge)
	}
	if _, err := io.WriteString(&b, "x"); !errors.Is(err, errLarge) {
		t.Errorf("io.WriteString() after it = %v, want %v", err, errLarge)
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestAdmit(t *testing.T) {
	var none *Source
	for _, c := range []struct {
		s        *Source
		identity bool
		admitted bool
	}{{New(true), false, true}, {New(false), false, false}, {none, false, false}, {New(true), true, false}} {
		if err := c.s.Admit(c.identity); (err == nil) != c.admitted || err != nil && !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("Admit(%t) with %+v = %v", c.identity, c.s, err)
		}
	}
}

func TestRedacted(t *testing.T) {
	got := redacted([]string{"/bin/token", "agent", "-encrypt=abc", "--consul-token", "abc", "-config=/etc/x", "-acl-replication-token=abc",
		"-client-intro-token", "abc", "-dev", "abd", "-consul-auth=u:abc", "-token"})
	text := strings.Join(got, " ")
	if strings.Contains(text, "abc") ||
		!strings.Contains(text, "/bin/token agent -encrypt=<redacted> --consul-token <redacted> -config=/etc/x") ||
		!strings.HasSuffix(text, "-dev abd -consul-auth=<redacted> -token") {
		t.Errorf("redacted() = %s", text)
	}
}

// The facts about a host contain no variable of the environment.
func TestHost(t *testing.T) {
	t.Setenv("CANARY_OF_HOST", "canary-of-host")
	h := New(true).Host().HostData
	if len(h.Environment) != 0 || h.Environment == nil {
		t.Errorf("environment %v", h.Environment)
	}
	if !strings.HasPrefix(h.OS, "Linux ") || len(h.Network) == 0 || h.Network[0]["address"] == "" {
		t.Errorf("OS %q, network %v", h.OS, h.Network)
	}
}
