package testconsul

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// maxOutput limits the output of a check.
const maxOutput = 4096

// Advance moves the clock, and runs the checks that become due on the way, in order.
func (a *Agent) Advance(d time.Duration) {
	a.mu.Lock()
	until := a.now().Add(d)
	a.mu.Unlock()
	a.probe(until, true)
	a.mu.Lock()
	defer a.mu.Unlock()
	if left := until.Sub(a.now()); left > 0 {
		a.offset += left
	}
	a.wake()
}

// runChecks runs the checks that are due until stop is closed.
func (a *Agent) runChecks(stop <-chan struct{}) {
	for {
		a.mu.Lock()
		now, changed := a.now(), a.changed
		next := a.earliest()
		a.mu.Unlock()
		var timer <-chan time.Time
		if next != nil {
			if left := next.due.Sub(now); left > 0 {
				timer = time.After(left)
			} else {
				a.probe(now, false)
				continue
			}
		}
		select {
		case <-stop:
			return
		case <-changed:
		case <-timer:
		}
	}
}

// earliest returns a copy of the check that is due first, or nil. The caller holds mu.
func (a *Agent) earliest() *check {
	var first *check
	for _, k := range a.checks {
		if !k.due.IsZero() && (first == nil || k.due.Before(first.due) || k.due.Equal(first.due) && k.CheckID < first.CheckID) {
			first = k
		}
	}
	if first == nil {
		return nil
	}
	out := *first
	return &out
}

// probe runs the checks that are due until a time. If move is set, the clock goes to the time of each.
func (a *Agent) probe(until time.Time, move bool) {
	a.probing.Lock()
	defer a.probing.Unlock()
	for {
		a.mu.Lock()
		due := a.earliest()
		if due == nil || due.due.After(until) {
			a.mu.Unlock()
			return
		}
		k := a.checks[due.CheckID]
		if left := due.due.Sub(a.now()); move && left > 0 {
			a.offset += left
		}
		k.due = time.Time{}
		if k.run() {
			k.due = due.due.Add(k.interval)
		}
		a.mu.Unlock()
		status, output := api.HealthCritical, "TTL expired"
		if due.run() {
			status, output = due.try()
		}
		a.mu.Lock()
		if a.checks[due.CheckID] == k {
			a.result(k, status, output)
		}
		a.mu.Unlock()
	}
}

// result records a result. The status changes after as many equal results as the definition requires. The caller holds
// mu.
func (a *Agent) result(k *check, status, output string) {
	if status == api.HealthCritical {
		k.failures, k.successes = k.failures+1, 0
	} else {
		k.failures, k.successes = 0, k.successes+1
	}
	d := &k.def
	switch {
	case k.Type == "ttl":
	case status == api.HealthCritical && k.failures < d.FailuresBeforeCritical:
		if d.FailuresBeforeWarning == 0 || k.failures < d.FailuresBeforeWarning {
			return
		}
		status = api.HealthWarning
	case status != api.HealthCritical && k.successes < d.SuccessBeforePassing:
		return
	}
	if k.Status != status || k.Output != output {
		k.Status, k.Output = status, output
		a.touchCheck(k)
	}
}

// try runs a check of type http, tcp or grpc.
func (k *check) try() (status, output string) {
	ctx, cancel := context.WithTimeout(context.Background(), k.timeout)
	defer cancel()
	var err error
	switch k.Type {
	case "http":
		status, output, err = k.tryHTTP(ctx)
	case "tcp":
		status, output, err = k.tryTCP(ctx)
	case "grpc":
		status, output, err = k.tryGRPC(ctx)
	}
	if err != nil {
		return api.HealthCritical, err.Error()
	}
	return status, output
}

func (k *check) tls() *tls.Config {
	return &tls.Config{ServerName: k.def.TLSServerName, InsecureSkipVerify: k.def.TLSSkipVerify}
}

func (k *check) tryHTTP(ctx context.Context) (status, output string, err error) {
	method := k.def.Method
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, k.def.HTTP, strings.NewReader(k.def.Body))
	if err != nil {
		return "", "", err
	}
	for name, values := range k.def.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: k.tls()}}
	resp, err := client.Do(r)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil {
		return "", "", err
	}
	status = api.HealthCritical
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		status = api.HealthPassing
	case resp.StatusCode == http.StatusTooManyRequests:
		status = api.HealthWarning
	}
	return status, fmt.Sprintf("HTTP %s %s: %s Output: %s", method, k.def.HTTP, resp.Status, body), nil
}

func (k *check) tryTCP(ctx context.Context) (status, output string, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", k.def.TCP)
	if err != nil {
		return "", "", err
	}
	conn.Close()
	return api.HealthPassing, "TCP connect " + k.def.TCP + ": Success", nil
}

func (k *check) tryGRPC(ctx context.Context) (status, output string, err error) {
	address, service, _ := strings.Cut(k.def.GRPC, "/")
	creds := insecure.NewCredentials()
	if k.def.GRPCUseTLS {
		creds = credentials.NewTLS(k.tls())
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return "", "", err
	}
	if resp.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return api.HealthCritical, fmt.Sprintf("gRPC %s status: %s", address, resp.Status), nil
	}
	return api.HealthPassing, fmt.Sprintf("gRPC check %s: success", k.def.GRPC), nil
}
