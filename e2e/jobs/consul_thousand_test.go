package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

const (
	thousandAllocs   = 100
	servicesPerAlloc = 10
	// thousandLimit is the time for 1,000 services on a machine that does nothing else.
	thousandLimit = 10 * time.Second
)

// TestConsulThousand adds 1,000 services with a check to running allocations at once, and removes them. All are registered
// once.
func TestConsulThousand(t *testing.T) {
	f := newConsulFleet(t)
	f.join("one")
	defer f.Purge()
	var services strings.Builder
	for i := range servicesPerAlloc {
		fmt.Fprintf(&services, "service {\n name = \"s%d\"\n port = \"%d\"\n address = \"127.0.0.1\"\n check {\n type = \"tcp\"\n "+
			"interval = \"1h\"\n timeout = \"2s\"\n}\n}\n", i, 9000+i)
	}
	job := func(services string) string {
		return harness.Job("thousand", "", fmt.Sprintf(`
    count = %d
    %s
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
      resources {
        cpu    = 1
        memory = 10
      }
    }`, thousandAllocs, services))
	}
	harness.Run(t, f.Server, job(""))
	harness.Await(t, f.Server, "thousand", "running", thousandAllocs)
	has := func(n int, began time.Time) time.Duration {
		t.Helper()
		harness.Within(t, harness.Patience, fmt.Sprintf("%d services", n), func() bool { return len(f.consul.Services()) == n })
		return time.Since(began)
	}
	began := time.Now()
	harness.Run(t, f.Server, job(services.String()))
	took := has(thousandAllocs*servicesPerAlloc, began)
	t.Logf("registered in %s", took)
	if took > thousandLimit {
		t.Errorf("registered in %s, want at most %s", took, thousandLimit)
	}
	if n := f.consul.Calls("PUT /v1/agent/service/register"); n != thousandAllocs*servicesPerAlloc {
		t.Errorf("%d registrations, want each service once", n)
	}
	began = time.Now()
	harness.Stop(t, f.Server, "thousand")
	t.Logf("removed in %s", has(0, began))
}
