package bridge_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// secret is in each text of the job's checks that the log of the agent must not have.
const secret = "s3cr3t"

// checked is a network block with a service whose checks connect in all ways. It lacks the brace that ends the service.
const checked = `
  port "rpc" {
    to = 8081
  }
}
service {
  name     = "web"
  port     = "http"
  provider = "nomad"
` + httpCheck + `
    path = "/host?token=` + secret + `"
  }
` + httpCheck + `
    path         = "/alloc?token=` + secret + `"
    address_mode = "alloc"
  }
` + httpCheck + `
    path         = "/alloc6"
    address_mode = "alloc_ipv6"
  }
` + httpCheck + `
    path         = "/fails?token=` + secret + `"
    address_mode = "alloc"
    check_restart {
      limit = 1000
    }
  }
` + grpcCheck + `
    grpc_service = "host"
  }
` + grpcCheck + `
    grpc_service = "alloc"
    address_mode = "alloc"
  }
  check {
    type     = "script"
    name     = "` + secret + ` script"
    task     = "t"
    command  = "/bin/sh"
    args     = ["-c", "echo ` + secret + `; echo ` + secret + ` >&2; exit 1"]
    interval = "1s"
    timeout  = "2s"
  }
`

const httpCheck = `
  check {
    type     = "http"
    interval = "1s"
    timeout  = "2s"
    header {
      Authorization = ["` + secret + `"]
    }`

const grpcCheck = `
  check {
    type     = "grpc"
    port     = "rpc"
    interval = "1s"
    timeout  = "2s"`

// TestChecks_Source checks from where the checks of a group on the bridge connect: those of the address of the host from
// the node, others from inside the network namespace. No text of a check or of its result is in the log of the agent.
func TestChecks_Source(t *testing.T) {
	n := newNode(t, "", `log_level = "DEBUG"`)
	n.run("web", group("a", plain+checked, "exec2", sleep), group("b", alone+checked, "exec2", sleep), group("c", narrow+checked, "exec2", sleep))
	for name, al := range n.allocs("web", "running", 3) {
		var s sources
		s.serve(t, n.space(al))
		net4, net6 := al.NetworkStatus.Address, al.NetworkStatus.AddressIPv6
		for from, inside := range map[string]string{"/host": "", "/alloc": net4, "/alloc6": net6, "/fails": net4, "host": "", "alloc": net4} {
			var got string
			testpace.Until(t, "group "+name+": the check "+from+" connects", func() bool { got = s.of(from); return got != "" })
			if got == inside || inside == "" && got != net4 && got != net6 {
				continue
			}
			t.Errorf("group %s: the check %s connects from %s, want %q", name, from, got, inside)
		}
		testpace.Until(t, "the checks of group "+name+" have results", func() bool {
			all, err := n.Client.Allocations().Checks(al.ID, nil)
			count := map[string]int{}
			for _, c := range all {
				if strings.Contains(c.Output, secret) {
					count[secret]++
				}
				count[c.Status]++
			}
			return err == nil && count["success"] == 5 && count["warning"] == 1 && count["failure"] == 1 && count[secret] == 2
		})
	}
	if _, _, err := n.Client.Jobs().Deregister("web", false, nil); err != nil {
		t.Fatal(err)
	}
	n.allocs("web", "complete", 3)
	text, err := os.ReadFile(n.log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "status of a check has changed") {
		t.Error("the log lacks the lines of level debug")
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, secret) {
			t.Errorf("the log has a text of a check: %s", line)
		}
	}
}

// sources records from where requests came, by path or service.
type sources struct {
	mu   sync.Mutex
	from map[string]string
}

func (s *sources) note(what, remote string) {
	host, _, _ := net.SplitHostPort(remote) // "" for what is not an address
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		s.from = map[string]string{}
	}
	s.from[what] = host
}

func (s *sources) of(what string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from[what]
}

// serve answers checks at the ports 8080 and 8081 of a network namespace.
func (s *sources) serve(t *testing.T, space string) {
	t.Helper()
	var listeners [2]net.Listener
	err := testnet.Inside(space, func() (err error) {
		for i := range listeners {
			if listeners[i], err = net.Listen("tcp", fmt.Sprintf("[::]:%d", 8080+i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.note(r.URL.Path, r.RemoteAddr)
		if r.URL.Path == "/fails" {
			http.Error(w, secret, http.StatusInternalServerError)
		}
	})}
	checks := grpc.NewServer()
	healthpb.RegisterHealthServer(checks, healthy{s, health.NewServer()})
	go func() { _ = web.Serve(listeners[0]) }()    // ends with Close
	go func() { _ = checks.Serve(listeners[1]) }() // ends with Stop
	t.Cleanup(func() { web.Close(); checks.Stop() })
}

// healthy is a health service in which every service serves.
type healthy struct {
	sources *sources
	healthpb.HealthServer
}

func (h healthy) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if p, ok := peer.FromContext(ctx); ok {
		h.sources.note(req.Service, p.Addr.String())
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}
