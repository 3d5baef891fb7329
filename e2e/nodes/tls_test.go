package nodes_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// authority creates certificates, and stores those that the agents of a cluster use.
type authority struct {
	t   *testing.T
	dir string // one directory for each generation of certificates
	use string // ca.pem, and the certificate and key of each role
}

var roles = []string{"server", "client", "cli"}

// newAuthority creates a CA and certificates of all roles, "one", and installs them.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	k := &authority{t: t, dir: harness.TempDir(t)}
	k.use = filepath.Join(k.dir, "use")
	harness.Mkdir(t, k.use)
	k.makeCA("one")
	k.makeCerts("one", "one")
	k.trust("one")
	k.install("one")
	return k
}

// nomad runs a command in a directory of the authority.
func (k *authority) nomad(dir string, args ...string) {
	k.t.Helper()
	harness.Mkdir(k.t, filepath.Join(k.dir, dir))
	cmd := exec.Command("nomad", args...)
	cmd.Dir = filepath.Join(k.dir, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("nomad %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (k *authority) makeCA(dir string) { k.nomad(dir, "tls", "ca", "create", "-name-constraint") }

// makeCerts creates a certificate for each role, signed by the CA of a directory.
func (k *authority) makeCerts(dir, ca string) {
	for _, role := range roles {
		k.nomad(dir, "tls", "cert", "create", "-"+role, "-ca=../"+ca+"/nomad-agent-ca.pem", "-key=../"+ca+"/nomad-agent-ca-key.pem")
	}
}

// install installs the certificates of a directory.
func (k *authority) install(dir string) {
	for _, role := range roles {
		for _, end := range []string{".pem", "-key.pem"} {
			harness.WriteFile(k.t, filepath.Join(k.use, role+end), harness.FileText(k.t, filepath.Join(k.dir, dir, "global-"+role+"-nomad"+end)))
		}
	}
}

// trust sets the trusted CAs.
func (k *authority) trust(dirs ...string) {
	text := ""
	for _, dir := range dirs {
		text += harness.FileText(k.t, filepath.Join(k.dir, dir, "nomad-agent-ca.pem"))
	}
	harness.WriteFile(k.t, filepath.Join(k.use, "ca.pem"), text)
}

// config writes the configuration of an agent with the certificate of a role, and returns its flag.
// settings follow those that verify everything.
func (k *authority) config(role, settings string) string {
	name := filepath.Join(k.use, role+".hcl")
	harness.WriteFile(k.t, name, fmt.Sprintf("tls {\n  http = true\n  rpc = true\n  verify_https_client = true\n  ca_file = %q\n"+
		"  cert_file = %q\n  key_file = %q\n%s}\n%s",
		filepath.Join(k.use, "ca.pem"), filepath.Join(k.use, role+".pem"), filepath.Join(k.use, role+"-key.pem"), settings, harness.TestDrivers))
	return "-config=" + name
}

const verifyNames = "  verify_server_hostname = true\n"

// user returns the TLS configuration of callers.
func (k *authority) user() *api.TLSConfig {
	return &api.TLSConfig{CACert: filepath.Join(k.use, "ca.pem"), ClientCert: filepath.Join(k.use, "cli.pem"),
		ClientKey: filepath.Join(k.use, "cli-key.pem")}
}

// serial returns the serial number of the installed certificate of a role.
func (k *authority) serial(role string) string {
	k.t.Helper()
	block, _ := pem.Decode([]byte(harness.FileText(k.t, filepath.Join(k.use, role+".pem"))))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		k.t.Fatal(err)
	}
	return cert.SerialNumber.String()
}

// shown returns the serial number of the certificate on an agent's port, or "". RPC connections
// begin with a byte that requests TLS.
func (k *authority) shown(port int, first string) string {
	pair, err := tls.LoadX509KeyPair(filepath.Join(k.use, "client.pem"), filepath.Join(k.use, "client-key.pem"))
	if err != nil {
		k.t.Fatal(err)
	}
	raw, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return ""
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(harness.Patience))
	if _, err := io.WriteString(raw, first); err != nil {
		return ""
	}
	conn := tls.Client(raw, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		return ""
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// safe is a cluster of three servers and a client that use TLS everywhere and verify everything,
// with a running job.
type safe struct {
	*harness.Servers
	keys   *authority
	client *cluster.Agent
	alloc  *api.AllocationListStub
	pid    string
}

func startSafe(t *testing.T) *safe {
	k := newAuthority(t)
	c := &safe{keys: k}
	c.Servers = harness.StartServersWith(t, func(o *cluster.Options) {
		o.TLS, o.Args = k.user(), append(o.Args, k.config("server", verifyNames))
	})
	dir := filepath.Join(harness.TempDir(t), "client")
	c.client = harness.StartIn(t, cluster.Options{Dir: dir, TLS: k.user(),
		Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"),
			k.config("client", verifyNames), fmt.Sprintf("-servers=127.0.0.1:%d", c.All[0].RPC)}})
	harness.RegisterRetry(t, c.All[1], harness.CountingJob(harness.CountingEnded, ""))
	harness.Within(t, harness.Patience, "the task runs", func() bool {
		allocs, _, err := c.All[2].Client.Jobs().Allocations(harness.CountingID(harness.CountingEnded), false, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus == "running"
	})
	c.alloc = harness.OnlyAlloc(t, c.client, harness.CountingID(harness.CountingEnded))
	c.pid = harness.PID(t, c.client, c.alloc)
	return c
}

// holds checks that every server accepts writes, lists all members, and reaches the running task.
func (c *safe) holds(t *testing.T) {
	t.Helper()
	for _, a := range c.All {
		c.Write(a)
		c.Check(a, false)
		if pid := harness.PID(t, a, c.alloc); pid != c.pid {
			t.Errorf("through %s the task is process %s, was %s", a.Address(), pid, c.pid)
		}
	}
	if n := harness.OnlyAlloc(t, c.client, harness.CountingID(harness.CountingEnded)).TaskStates["t"].Restarts; n != 0 {
		t.Errorf("the task was restarted %d times", n)
	}
}

// reload makes all agents reload their certificates and waits until HTTP and RPC use the new ones.
func (c *safe) reload(t *testing.T) {
	t.Helper()
	role := map[*cluster.Agent]string{c.client: "client"}
	for _, a := range c.All {
		role[a] = "server"
	}
	for a := range role {
		if err := a.Reload(c.keys.user()); err != nil {
			t.Fatal(err)
		}
	}
	for a, r := range role {
		want := c.keys.serial(r)
		harness.Within(t, harness.Patience, "a "+r+" shows its new certificate", func() bool {
			return c.keys.shown(a.HTTP, "") == want && (r == "client" || c.keys.shown(a.RPC, "\x04") == want)
		})
	}
}

// Agents with TLS run a job for callers with a certificate. Certificates, then their CA, are
// replaced while they run.
func TestTLSCluster(t *testing.T) {
	c := startSafe(t)
	defer harness.PurgeAll(t, c.client)
	c.holds(t)
	t.Run("users", c.users)
	t.Run("the official SDK", c.officialSDK)
	t.Run("the command line", c.commandLine)
	t.Run("intruders", c.intruders)

	c.keys.makeCerts("two", "one")
	c.keys.install("two")
	c.reload(t)
	c.holds(t)

	before := c.All[0].Client
	c.keys.makeCA("three")
	c.keys.makeCerts("three", "three")
	for _, step := range []func(){
		func() { c.keys.trust("one", "three") },
		func() { c.keys.install("three") },
		func() { c.keys.trust("three") },
	} {
		step()
		c.reload(t)
		c.holds(t)
	}
	harness.Within(t, harness.Patience, "the old CA is worth nothing", func() bool {
		before.Close()
		_, err := before.Status().Leader()
		return err != nil
	})
	t.Run("users of the new CA", c.users)
}

// Without a certificate of the CA no agent's HTTP API answers.
func (c *safe) users(t *testing.T) {
	other := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(harness.FileText(t, filepath.Join(c.keys.use, "ca.pem"))))
	untrusted, err := tls.LoadX509KeyPair(filepath.Join(other.use, "cli.pem"), filepath.Join(other.use, "cli-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for name, conf := range map[string]*tls.Config{
		"no certificate": {RootCAs: pool},
		"a certificate of another CA": {RootCAs: pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &untrusted, nil
		}},
	} {
		for _, a := range append(c.All, c.client) {
			h := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}, Timeout: harness.Patience}
			resp, err := h.Get(a.Address() + "/v1/jobs")
			if err == nil {
				resp.Body.Close()
				t.Errorf("%s: %s answers %s", name, a.Address(), resp.Status)
			} else if !strings.Contains(err.Error(), "certificate") {
				t.Errorf("%s: %v", name, err)
			}
			h.CloseIdleConnections()
		}
	}
	resp, err := http.Get(strings.Replace(c.All[0].Address(), "https:", "http:", 1) + "/v1/jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 400 || !harness.ContainsJSON(string(text), "HTTPS") {
		t.Errorf("without TLS: %s %s %v", resp.Status, text, err)
	}
}

func (c *safe) officialSDK(t *testing.T) {
	conf := &sdk.Config{Address: c.All[1].Address(), TLSConfig: &sdk.TLSConfig{CACert: filepath.Join(c.keys.use, "ca.pem"),
		ClientCert: filepath.Join(c.keys.use, "cli.pem"), ClientKey: filepath.Join(c.keys.use, "cli-key.pem")}}
	client, err := sdk.NewClient(conf)
	if err != nil {
		t.Fatal(err)
	}
	job, _, err := client.Jobs().Info(harness.CountingID(harness.CountingEnded), nil)
	if err != nil || *job.ID != harness.CountingID(harness.CountingEnded) {
		t.Errorf("Jobs().Info() = %v", err)
	}
	alloc, _, err := client.Allocations().Info(c.alloc.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := client.AllocFS().Cat(alloc, "alloc/logs/t.stdout.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if text, err := io.ReadAll(in); err != nil || !strings.HasPrefix(string(text), "pid "+c.pid) {
		t.Errorf("the log is %.40q, %v", text, err)
	}
	conf.TLSConfig.ClientCert, conf.TLSConfig.ClientKey = "", ""
	if client, err = sdk.NewClient(conf); err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Jobs().List(nil); err == nil {
		t.Error("without a certificate the SDK is answered")
	}
}

func (c *safe) commandLine(t *testing.T) {
	members := func(env ...string) (string, error) {
		cmd := exec.Command("nomad", "server", "members")
		cmd.Env = append(os.Environ(), append(env, "NOMAD_ADDR="+c.All[2].Address())...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	u := c.keys.user()
	harness.Within(t, harness.Patience, "server members lists three that are alive", func() bool {
		out, err := members("NOMAD_CACERT="+u.CACert, "NOMAD_CLIENT_CERT="+u.ClientCert, "NOMAD_CLIENT_KEY="+u.ClientKey)
		if err != nil {
			t.Errorf("server members: %v: %s", err, out)
		}
		return strings.Count(out, "alive") == 3
	})
	if out, err := members("NOMAD_CACERT=" + u.CACert); err == nil || !strings.Contains(out, "NOMAD_CLIENT_CERT") {
		t.Errorf("without a certificate: %v: %s", err, out)
	}
	if out, err := members(); err == nil || !strings.Contains(out, "NOMAD_CACERT") {
		t.Errorf("without the CA: %v: %s", err, out)
	}
}

// A server whose certificate has another CA, or another role, may join by gossip: it gets no vote,
// no log, and no leader.
func (c *safe) intruders(t *testing.T) {
	alien := newAuthority(t)
	message := harness.Refusal(t, cluster.Options{Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(harness.TempDir(t), "data"),
		c.keys.config("cli", verifyNames)}})
	if !strings.Contains(message, "server authentication") {
		t.Errorf("a server with the certificate of a user prints %q", message)
	}
	for name, flag := range map[string]string{
		"with a certificate of another CA":    alien.config("server", verifyNames),
		"with the certificate of a client":    c.keys.config("client", ""),
		"without TLS":                         "-log-level=info",
		"that believes in another CA as well": c.keys.foreign(alien),
	} {
		t.Run(name, func(t *testing.T) { c.intrude(t, flag, alien) })
	}
	c.keys.config("client", verifyNames)
	c.holds(t)
}

// foreign configures a server of another CA that trusts the CA of the cluster.
func (k *authority) foreign(alien *authority) string {
	name := filepath.Join(alien.use, "foreign.hcl")
	harness.WriteFile(k.t, name, fmt.Sprintf("tls {\n  rpc = true\n  ca_file = %q\n  cert_file = %q\n  key_file = %q\n}\n",
		filepath.Join(k.use, "ca.pem"), filepath.Join(alien.use, "server.pem"), filepath.Join(alien.use, "server-key.pem")))
	return "-config=" + name
}

// intrude starts a server that joins the gossip of the cluster.
func (c *safe) intrude(t *testing.T, flag string, alien *authority) {
	dir := filepath.Join(harness.TempDir(t), "intruder")
	leaves := filepath.Join(harness.TempDir(t), "leaves.hcl")
	harness.WriteFile(t, leaves, "leave_on_terminate = true\n")
	o := cluster.Options{Dir: dir, Args: []string{"-server", "-bind=127.0.0.1", "-node=intruder", "-bootstrap-expect=3",
		"-data-dir=" + filepath.Join(dir, "data"),
		fmt.Sprintf("-retry-join=127.0.0.1:%d", c.All[0].Serf), "-config=" + leaves, flag}}
	switch {
	case strings.Contains(flag, alien.use) && !strings.Contains(flag, "foreign"):
		o.TLS = alien.user()
	case strings.Contains(flag, c.keys.use):
		o.TLS = c.keys.user()
	}
	a := harness.StartIn(t, o)
	harness.Within(t, harness.Patience, "the cluster lists the intruder", func() bool {
		m, err := c.All[0].Client.Agent().Members()
		return err == nil && len(m.Members) == 4
	})
	for range writesEach {
		c.Write(c.All[0])
	}
	conf, err := c.All[0].Client.Operator().RaftGetConfiguration(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range conf.Servers {
		if s.Voter && s.Address == fmt.Sprintf("127.0.0.1:%d", a.RPC) {
			t.Error("the intruder has a vote")
		}
	}
	if jobs, _, err := a.Client.Jobs().List(&api.QueryOptions{AllowStale: true}); err == nil && len(jobs) != 0 {
		t.Errorf("the intruder has %d jobs", len(jobs))
	}
	if leader, err := a.Client.Status().Leader(); err == nil && leader != "" {
		t.Errorf("the intruder has the leader %s", leader)
	}
	if err := a.Stop(); err != nil { // it leaves the gossip: its failure would be noticed late
		t.Error(err)
	}
	harness.Within(t, harness.Patience, "the intruder is forgotten", func() bool {
		conf, err := c.All[0].Client.Operator().RaftGetConfiguration(nil)
		return err == nil && len(conf.Servers) == 3
	})
}
