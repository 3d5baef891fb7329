package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/sockets"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// sessionOf opens a session in an allocation, writes "x\n" to it, and returns when it has ended. out gets what
// comes back.
type sessionOf func(ctx context.Context, c *api.Client, alloc *api.Allocation, in io.Reader, out io.Writer) error

var sessions = map[string]sessionOf{
	"exec": func(ctx context.Context, c *api.Client, alloc *api.Allocation, in io.Reader, out io.Writer) error {
		_, err := c.Allocations().Exec(ctx, alloc, "t", false, []string{"cat"}, in, out, io.Discard, nil, &api.QueryOptions{Namespace: prod})
		return err
	},
	"port-forward": func(ctx context.Context, c *api.Client, alloc *api.Allocation, in io.Reader, out io.Writer) error {
		conn := struct {
			io.Reader
			io.Writer
		}{in, out}
		return c.Allocations().PortForward(ctx, alloc, "http", conn, &api.QueryOptions{Namespace: prod})
	},
}

// Exec sessions and forwarded connections end soon after their token is deleted, has expired or has lost the
// right; through a server and through a client. The connection to the task is closed then.
func TestSessionsEndWithTheToken(t *testing.T) {
	h := open(t)
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("needs perl")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	alloc := h.echoing("tunnel", closed)
	var forwarded atomic.Int64 // forwarded connections that have ended
	for kind, session := range sessions {
		for _, how := range []string{"deleted", "expired", "policy"} {
			for place, agent := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
				t.Run(fmt.Sprintf("%s %s through a %s", kind, how, place), func(t *testing.T) {
					if how == "expired" {
						t.Parallel() // it mostly waits
					}
					h.sessionEnds(t, agent, how, func(ctx context.Context, c *api.Client, in io.Reader, out io.Writer) error {
						return session(ctx, c, alloc, in, out)
					})
					if kind != "port-forward" {
						return
					}
					n := forwarded.Add(1)
					testpace.Until(t, "the end of the connection to the task", func() bool {
						b, err := os.ReadFile(closed)
						return err == nil && int64(len(b)) >= n
					})
				})
			}
		}
	}
}

// echoing runs a job whose task listens on the port http, returns what it receives on each connection, and appends a
// byte to the file closed at the end of each. It returns the allocation.
func (h *house) echoing(id, closed string) *api.Allocation {
	h.t.Helper()
	job, err := h.api.Jobs().ParseHCL(fmt.Sprintf(`job %q {
  namespace = %q
  group "g" {
    network {
      port "http" {}
    }
    task "t" {
      driver     = "raw_exec"
      privileged = true
      user       = "root"
      config {
        command = "/usr/bin/perl"
        args    = ["-MIO::Socket::INET", "-e", <<PERL
$SIG{CHLD} = "IGNORE";
my $s = IO::Socket::INET->new(Listen => 64, LocalAddr => $ENV{NOMAD_IP_http}, LocalPort => $ENV{NOMAD_PORT_http}) or die $!;
while (my $c = $s->accept) {
  next if fork;
  close $s;
  while (sysread $c, my $got, 4096) { syswrite $c, $got }
  open my $file, ">>", "%s" or die $!;
  syswrite $file, "x";
  exit;
}
PERL
        ]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`, id, prod, closed), true)
	h.must(err)
	_, _, err = h.api.Jobs().Register(job, nil)
	h.must(err)
	var running *api.Allocation
	testpace.Until(h.t, "an allocation of "+id, func() bool {
		list, _, err := h.api.Jobs().Allocations(id, false, &api.QueryOptions{Namespace: prod})
		if err != nil || len(list) != 1 || list[0].ClientStatus != "running" {
			return false
		}
		running, _, err = h.api.Allocations().Info(list[0].ID, &api.QueryOptions{Namespace: prod})
		if err != nil {
			return false
		}
		port := running.AllocatedResources.Shared.Ports[0].Value
		listening, err := sockets.Listening(func(p uint16) bool { return int(p) == port })
		return err == nil && len(listening) > 0
	})
	return running
}

// sessionEnds opens a session with a token, ends the token, and checks that the session ends.
func (h *house) sessionEnds(t *testing.T, agent *cluster.Agent, how string,
	open func(context.Context, *api.Client, io.Reader, io.Writer) error,
) {
	t.Helper()
	policy := strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())
	grant := func(rules string) {
		if _, err := h.api.ACLPolicies().Upsert(&api.ACLPolicy{Name: policy, Rules: rules}, nil); err != nil {
			t.Fatal(err)
		}
	}
	grant(`namespace "prod" { capabilities = ["alloc-exec", "alloc-node-exec", "alloc-port-forward"] }`)
	want := &api.ACLToken{Type: "client", Policies: []string{policy}}
	for ttl := 8 * time.Second; ; ttl *= 2 { // on a busy machine it may expire before the session begins
		if how == "expired" {
			want.ExpirationTTL = ttl
		}
		token, _, err := h.api.ACLTokens().Create(want, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		in, typed := io.Pipe()
		defer typed.CloseWithError(errors.New("over"))
		go io.WriteString(typed, "x\n") //nolint:errcheck // the session may not begin
		out := &begun{ch: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- open(ctx, h.as(agent, token.SecretID), in, out) }()
		select {
		case <-out.ch:
		case err := <-ended:
			if how == "expired" && ttl < time.Minute {
				continue
			}
			t.Fatalf("the session did not begin: %v", err)
		}
		switch how {
		case "deleted":
			if _, err := h.api.ACLTokens().Delete(token.AccessorID, nil); err != nil {
				t.Fatal(err)
			}
		case "policy":
			grant(`namespace "prod" { policy = "deny" }`)
		}
		gone := time.Now()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "session ended before the command") {
			t.Errorf("the session ended with %v", err)
		}
		if took := time.Since(gone); took > 2*time.Minute { // tokens are cached for a second, and the machine is busy
			t.Errorf("the session ended %v after its token", took)
		}
		return
	}
}
