package identity_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/cgroup"
)

const (
	spiffeDomain = "prod.example.org"
	spiffeTask   = "spiffe://" + spiffeDomain + "/ns/default/job/%s/group/%s/task/t"
)

// svidReport is what a task learned from its Workload API, as JSON in its output.
type svidReport struct {
	ID, TLS, JWT, Validated string
	DNS                     []string
	First                   time.Duration // until the first X.509-SVID
	Renewals                int
}

// useSpiffe is a task that uses the client library of the SPIFFE project, as found by the environment.
// With "renew", it waits for two more SVIDs; with "once", it gives up soon.
func useSpiffe(args []string) int {
	limit := 30 * time.Second
	if slices.Contains(args, "once") {
		limit = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r, err := spiffeReport(ctx, slices.Contains(args, "renew"))
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	text, err := json.Marshal(r)
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(string(text))
	return 0
}

func spiffeReport(ctx context.Context, renew bool) (*svidReport, error) {
	start := time.Now()
	source, err := workloadapi.NewX509Source(ctx)
	if err != nil {
		return nil, fmt.Errorf("X.509: %w", err)
	}
	defer source.Close()
	x, err := source.GetX509SVID()
	if err != nil {
		return nil, err
	}
	r := &svidReport{ID: x.ID.String(), DNS: x.Certificates[0].DNSNames, First: time.Since(start)}
	for serial := x.Certificates[0].SerialNumber; renew && r.Renewals < 2; r.Renewals++ {
		for x.Certificates[0].SerialNumber.Cmp(serial) == 0 {
			if err := source.WaitUntilUpdated(ctx); err != nil {
				return nil, fmt.Errorf("renewal %d: %w", r.Renewals+1, err)
			}
			if x, err = source.GetX509SVID(); err != nil {
				return nil, err
			}
		}
		serial = x.Certificates[0].SerialNumber
	}
	if r.TLS, err = mutualTLS(source, x.ID); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	client, err := workloadapi.New(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	token, err := client.FetchJWTSVID(ctx, jwtsvid.Params{Audience: "db"})
	if err != nil {
		return nil, fmt.Errorf("JWT: %w", err)
	}
	bundles, err := client.FetchJWTBundles(ctx)
	if err != nil {
		return nil, fmt.Errorf("JWT bundles: %w", err)
	}
	parsed, err := jwtsvid.ParseAndValidate(token.Marshal(), bundles, []string{"db"})
	if err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	valid, err := client.ValidateJWTSVID(ctx, token.Marshal(), "db")
	if err != nil {
		return nil, fmt.Errorf("ValidateJWTSVID: %w", err)
	}
	r.JWT, r.Validated = parsed.ID.String(), valid.ID.String()
	if _, err := client.ValidateJWTSVID(ctx, token.Marshal(), "other"); err == nil {
		return nil, errors.New("a token for another audience is valid")
	}
	return r, nil
}

// mutualTLS makes a connection to itself with the X.509-SVID at both ends, and returns the peer's ID.
func mutualTLS(source *workloadapi.X509Source, id spiffeid.ID) (string, error) {
	near, far := net.Pipe()
	server := tls.Server(far, tlsconfig.MTLSServerConfig(source, source, tlsconfig.AuthorizeID(id)))
	client := tls.Client(near, tlsconfig.MTLSClientConfig(source, source, tlsconfig.AuthorizeID(id)))
	defer near.Close() // without the closing messages of TLS, which a pipe without a reader blocks
	defer far.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := server.Write([]byte("hello"))
		sent <- err
	}()
	if _, err := io.ReadFull(client, make([]byte, 5)); err != nil {
		return "", err
	}
	return client.ConnectionState().PeerCertificates[0].URIs[0].String(), <-sent
}

// spiffeAgent starts an agent whose region has a trust domain.
func spiffeAgent(t *testing.T) *cluster.Agent {
	t.Helper()
	harness.NeedsSandbox(t)
	dir := harness.TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} { // tasks pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	cfg := filepath.Join(dir, "spiffe.hcl")
	harness.WriteFile(t, cfg, "server {\n  spiffe {\n    trust_domain = \""+spiffeDomain+
		"\"\n    dns = [\"svc.example.org\"]\n  }\n}\nplugin \"exec2\" {\n  config {\n    unveil_by_task = true\n  }\n}\n")
	return harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "d"), "-config=" + cfg}})
}

// spiffeJob returns a job whose task runs this program.
func spiffeJob(t *testing.T, a *cluster.Agent, id string, block *api.TaskSpiffe, args ...string) *api.Job {
	t.Helper()
	self := harness.CopyProgram(t, a.Dir)
	job := harness.OneTask(id, self, args...)
	job.TaskGroups[0].Tasks[0].Config["unveil"] = []string{"rx:" + self}
	job.TaskGroups[0].Tasks[0].Spiffe = block
	return job
}

// spiffeOutput returns the report of a complete task.
func spiffeOutput(t *testing.T, a *cluster.Agent, alloc string) *svidReport {
	t.Helper()
	text := harness.Content(t, filepath.Join(a.Dir, "d", "alloc", alloc, "alloc", "logs", "t.stdout.0"))
	r := &svidReport{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

// TestSpiffe: the client library of the SPIFFE project finds the Workload API inside a sandboxed task,
// uses both kinds of SVID and gets renewed ones. Verifiers outside use the public bundle.
func TestSpiffe(t *testing.T) {
	a := spiffeAgent(t)
	block := &api.TaskSpiffe{X509: true, JWT: true, TTL: 10 * time.Second, DNS: []string{"web.svc.example.org"}}
	done := harness.Register(t, a, spiffeJob(t, a, "web", block, "spiffe", "renew"), "complete")
	r := spiffeOutput(t, a, done.ID)
	want := fmt.Sprintf(spiffeTask, "web", "web")
	if r.ID != want || r.TLS != want || r.JWT != want || r.Validated != want || r.Renewals != 2 || !slices.Equal(r.DNS, block.DNS) {
		t.Errorf("report %+v, want %s", r, want)
	}
	code, doc, _ := harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/v1/spiffe/bundle", "")
	b, err := spiffebundle.Parse(spiffeid.RequireTrustDomainFromString(spiffeDomain), []byte(doc))
	if code != 200 || err != nil || len(b.X509Authorities()) != 1 || len(b.JWTAuthorities()) != 1 {
		t.Errorf("bundle: %d, %v, %s", code, err, doc)
	}
}

// TestSpiffePeers: the Workload API answers neither root outside of the task nor another task
// that has its socket. It removes the socket with the task.
func TestSpiffePeers(t *testing.T) {
	a := spiffeAgent(t)
	job := spiffeJob(t, a, "victim", &api.TaskSpiffe{X509: true, JWT: true})
	job.TaskGroups[0].Tasks[0].Config["command"] = "/bin/sleep"
	job.TaskGroups[0].Tasks[0].Config["args"] = []string{"600"}
	victim := harness.Register(t, a, job, "running")
	secrets := filepath.Join(a.Dir, "d", "alloc", victim.ID, "t", "secrets")
	socket := filepath.Join(secrets, "spiffe.sock")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket: %v, %v", info, err)
	}
	env := append(os.Environ(), "SPIFFE_ENDPOINT_SOCKET=unix://"+socket)
	as := func(group string) string {
		cmd := exec.Command(harness.CopyProgram(t, a.Dir), "spiffe", "once")
		cmd.Env = env
		if group != "" { // the shell joins the group and becomes the program
			cmd = exec.Command("/bin/sh", "-c", `echo 0 > "$0/cgroup.procs" && exec "$1" spiffe once`, group, cmd.Path)
			cmd.Env = env
		}
		out, err := cmd.CombinedOutput()
		return fmt.Sprint(string(out), err)
	}
	tree, err := cgroup.Detect()
	if err != nil || tree.V2 == "" {
		t.Skipf("needs a version 2 tree of control groups: %v", err)
	}
	groups := filepath.Join(tree.V2, "nomad.slice", "share.slice")
	if got := as(filepath.Join(groups, victim.ID+".t.scope")); !strings.Contains(got, fmt.Sprintf(spiffeTask, "victim", "victim")) {
		t.Errorf("a process in the task's group gets %s", got)
	}
	if got := as(""); strings.Contains(got, "victim") || !strings.Contains(got, "deadline") {
		t.Errorf("root outside of the task gets %s", got)
	}
	job = spiffeJob(t, a, "other", &api.TaskSpiffe{X509: true})
	job.TaskGroups[0].Tasks[0].Config["command"] = "/bin/sleep"
	job.TaskGroups[0].Tasks[0].Config["args"] = []string{"600"}
	other := harness.Register(t, a, job, "running")
	if got := as(filepath.Join(groups, other.ID+".t.scope")); strings.Contains(got, "/job/") || !strings.Contains(got, "deadline") {
		t.Errorf("a process of another task gets %s", got)
	}
	if log := harness.Content(t, filepath.Join(a.Dir, "agent.log")); !strings.Contains(log, "refused a caller of the SPIFFE Workload API") {
		t.Error("the log has no refusal")
	}
	harness.PurgeAll(t, a)
	harness.Within(t, harness.Patience, "the socket is removed", func() bool {
		_, err := os.Stat(socket)
		return os.IsNotExist(err)
	})
}

// TestSpiffeRefused: a region without a trust domain refuses a spiffe block by name, and one with a
// trust domain refuses what it cannot certify.
func TestSpiffeRefused(t *testing.T) {
	a := spiffeAgent(t)
	for name, tc := range map[string]struct {
		change func(*api.Job)
		want   string
	}{
		"dns": {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Spiffe.DNS = []string{"www.example.com"} },
			`dns of spiffe has "www.example.com", which the servers do not allow: use names below svc.example.org`},
		"driver": {func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Driver, j.TaskGroups[0].Tasks[0].Config = "docker", map[string]any{"image": "x"}
		}, `driver "docker" does not give`},
		"ttl":      {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Spiffe.TTL = 2 * time.Hour }, "the ttl of spiffe is 2h0m0s: use 10s to 1h0m0s"},
		"nothing":  {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Spiffe.X509 = false }, "set x509 = true or jwt = true"},
		"the name": {func(j *api.Job) { id := "web@1"; j.ID = &id }, `job "web@1" cannot be part of a SPIFFE ID`},
	} {
		t.Run(name, func(t *testing.T) {
			job := harness.OneTask("web", "/bin/true")
			job.TaskGroups[0].Tasks[0].Spiffe = &api.TaskSpiffe{X509: true}
			tc.change(job)
			_, _, err := a.Client.Jobs().Register(job, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Register() = %v, want %q", err, tc.want)
			}
		})
	}
	plain, _ := harness.Exec2Agent(t, "")
	job := harness.OneTask("web", "/bin/true")
	job.TaskGroups[0].Tasks[0].Spiffe = &api.TaskSpiffe{JWT: true}
	const want = `region "global" has none: set trust_domain in the spiffe block of the servers`
	if _, _, err := plain.Client.Jobs().Register(job, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Register() = %v, want %q", err, want)
	}
	if code, text, _ := harness.Fetch(t, http.DefaultClient, "GET", plain.Address()+"/v1/spiffe/bundle", ""); code != 404 {
		t.Errorf("bundle of a region without a trust domain: %d %s", code, text)
	}
}
