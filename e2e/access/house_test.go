package access

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// TestMain also runs the agents in this program.
func TestMain(m *testing.M) {
	companion.Main()
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Exit(command.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// house is a server and a client, with test objects.
type house struct {
	t              *testing.T
	dir            string
	server, client *cluster.Agent
	serverFiles    testpki.Files
	clientFiles    testpki.Files
	userFiles      testpki.Files
	management     string
	// api is the operator's client.
	api *api.Client

	alloc, over          string // allocations in prod: running, complete
	eval, deployment     string
	near, far, victim    *nodeID // nodes without tasks: in pool default, in another pool, one to be changed
	workloads            map[string]string
	introduction, expire string
	known                map[string]string // secrets, by kind
}

// nodeID identifies a node.
type nodeID struct{ id, secret, jwt string }

const (
	prod  = "prod" // namespace of the objects
	local = "mine" // namespace in which one caller has all rights
)

// open starts the agents and creates the objects.
func open(t *testing.T) *house {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("tasks get users and secrets of their own: run the tests as root")
	}
	ca := testpki.New(t)
	h := &house{t: t, dir: t.TempDir(), serverFiles: ca.Agent("server.global.nomad"), clientFiles: ca.Agent("client.global.nomad"),
		userFiles: ca.Agent("cli.global.nomad"), workloads: map[string]string{}, management: nomad.NewID()}
	h.server = h.start("server", h.serverFiles, `server { 
  enabled = true 
  bootstrap_expect = 1
}`)
	h.api = h.server.Client
	h.client = h.start("client", h.clientFiles, fmt.Sprintf("client {\n  enabled = true\n  servers = [\"127.0.0.1:%d\"]\n}\n"+
		"plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}", h.server.RPC))
	t.Cleanup(h.empty)
	h.furnish()
	return h
}

// start starts an agent.
func (h *house) start(name string, files testpki.Files, settings string) *cluster.Agent {
	h.t.Helper()
	dir := filepath.Join(h.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	text := fmt.Sprintf(`bind_addr = "127.0.0.1"
data_dir = %q
log_level = "DEBUG"
tls {
  http = true
  rpc  = true
  verify_server_hostname = true
  ca_file   = %q
  cert_file = %q
  key_file  = %q
}
acl {
  enabled = true
  token_min_expiration_ttl = "1ms"
  token_ttl  = "1s"
  policy_ttl = "1s"
  role_ttl   = "1s"
}
limits {
  http_max_conns_per_client = 0
  rpc_max_conns_per_client = 0
}
%s
`, filepath.Join(dir, "data"), files.CA, files.Cert, files.Key, settings)
	cfg := filepath.Join(dir, "agent.hcl")
	if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	a, err := cluster.Start(h.t.Context(), cluster.Options{
		Bin:    os.Args[0],
		Dir:    dir,
		Args:   []string{"-config=" + cfg},
		Log:    log,
		Secret: h.management,
		TLS:    &api.TLSConfig{CACert: h.userFiles.CA, ClientCert: h.userFiles.Cert, ClientKey: h.userFiles.Key},
	})
	if err != nil {
		h.showLog(name)
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			h.t.Error(err)
		}
		if h.t.Failed() {
			h.showLog(name)
		}
	})
	return a
}

// logTail is how much of an agent's log is printed.
const logTail = 8 << 10

func (h *house) showLog(name string) {
	text, _ := os.ReadFile(filepath.Join(h.dir, name, "agent.log"))
	h.t.Logf("the log of the %s ends:\n%s", name, text[max(0, len(text)-logTail):])
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// empty purges every job and waits until its tasks have ended.
func (h *house) empty() {
	all := &api.QueryOptions{Namespace: "*"}
	jobs, _, err := h.api.Jobs().List(all)
	if err != nil {
		h.t.Error(err)
	}
	for _, j := range jobs {
		if _, _, err := h.api.Jobs().Deregister(j.ID, true, &api.WriteOptions{Namespace: j.Namespace}); err != nil {
			h.t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		allocs, _, err := h.api.Allocations().List(all)
		living := func(a *api.AllocationListStub) bool {
			return a.ClientStatus == "running" || a.ClientStatus == "pending"
		}
		switch {
		case err == nil && !slices.ContainsFunc(allocs, living):
			return
		case ctx.Err() != nil:
			h.t.Errorf("tasks still run: %v", err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// policy stores a policy, for a job of prod if one is named.
func (h *house) policy(name, rules, job string) {
	h.t.Helper()
	p := &api.ACLPolicy{Name: name, Rules: rules}
	if job != "" {
		p.JobACL = &api.JobACL{Namespace: prod, JobID: job}
	}
	_, err := h.api.ACLPolicies().Upsert(p, nil)
	h.must(err)
}

// token creates a token and returns its secret.
func (h *house) token(t *api.ACLToken) string {
	h.t.Helper()
	if t.Type == "" {
		t.Type = "client"
	}
	made, _, err := h.api.ACLTokens().Create(t, nil)
	h.must(err)
	return made.SecretID
}

// run registers a job whose task writes its token to the directory of the test, and waits for it.
func (h *house) run(kind, id, then string) (alloc, token string) {
	h.t.Helper()
	name := filepath.Join(h.dir, id+".jwt")
	text := fmt.Sprintf(`job %q {
  type = %q
  namespace = %q
  group "g" {
    reschedule { 
      attempts = 0 
      unlimited = false
    }
    task "t" {
      driver     = "raw_exec"
      privileged = true
      user       = "root"
      identity { 
        file = true 
      }
      config {
        command = "/bin/sh"
        args = ["-c", "cp $NOMAD_SECRETS_DIR/nomad_token %s.new && mv %s.new %s; %s"]
      }
      resources {
        cpu = 20
        memory = 32
      }
    }
  }
}`, id, kind, prod, name, name, name, then)
	if kind == "batch" {
		text = strings.Replace(text, "reschedule {", "restart {\n attempts = 0\n mode = \"fail\"\n }\n reschedule {", 1)
	} else {
		text = strings.Replace(text, "    reschedule { \n      attempts = 0 \n      unlimited = false\n    }\n", "", 1)
	}
	job, err := h.api.Jobs().ParseHCL(text, true)
	h.must(err)
	_, _, err = h.api.Jobs().Register(job, nil)
	h.must(err)
	testpace.Until(h.t, "the token of "+id, func() bool {
		raw, err := os.ReadFile(name)
		token = strings.TrimSpace(string(raw))
		return err == nil && token != ""
	})
	allocs, _, err := h.api.Jobs().Allocations(id, false, &api.QueryOptions{Namespace: prod})
	h.must(err)
	return allocs[0].ID, token
}

// furnish creates the objects and the callers.
func (h *house) furnish() {
	h.t.Helper()
	for _, name := range []string{prod, local} {
		_, err := h.api.Namespaces().Register(&api.Namespace{Name: name}, nil)
		h.must(err)
	}
	_, err := h.api.NodePools().Register(&api.NodePool{Name: "gpu"}, nil)
	h.must(err)
	const everything = `{ policy = "write" }`
	h.policy("of-mine", `namespace "mine" `+`{
  policy = "write"
  variables { 
    path "*" { 
      capabilities = ["write", "read", "destroy"] 
    }
  }
}`, "")
	h.policy("of-prod", `namespace "prod" { policy = "write" }`+"\nnode "+everything, "")
	h.policy("denier", "namespace \"prod\" { policy = \"deny\" }\nnamespace \"*\" { policy = \"deny\" }\nnode { policy = \"deny\" }\n"+
		"agent { policy = \"deny\" }\noperator { policy = \"deny\" }", "")
	h.policy("reader", "namespace \"*\" { policy = \"read\" }\nnode_pool \"*\" { policy = \"read\" }\n"+
		"host_volume \"*\" { policy = \"read\" }\n"+
		"node { policy = \"read\" }\nagent { policy = \"read\" }\noperator { policy = \"read\" }\nquota { policy = \"read\" }\n"+
		"plugin { policy = \"read\" }", "")
	for _, job := range []string{"mid", "over"} {
		h.policy("of-"+job, `namespace "prod" { policy = "write" }`+"\nnode "+everything, job)
	}
	h.alloc, _ = h.run("service", "api", "sleep 3600")
	for _, job := range []string{"plain", "mi", "middle"} {
		_, h.workloads[job] = h.run("service", job, "sleep 3600")
	}
	h.over, h.workloads["over"] = h.run("batch", "over", "true")
	testpace.Until(h.t, "the end of over", func() bool {
		a, _, err := h.api.Allocations().Info(h.over, &api.QueryOptions{Namespace: prod})
		return err == nil && a.ClientStatus == "complete"
	})
	_, _, err = h.api.Variables().Create(&api.Variable{Namespace: prod, Path: "nomad/jobs/api", Items: api.VariableItems{"k": canary}}, nil)
	h.must(err)
	evals, _, err := h.api.Jobs().Evaluations("api", &api.QueryOptions{Namespace: prod})
	h.must(err)
	h.eval = evals[0].ID
	testpace.Until(h.t, "a deployment", func() bool {
		d, _, err := h.api.Jobs().LatestDeployment("api", &api.QueryOptions{Namespace: prod})
		if err == nil && d != nil {
			h.deployment = d.ID
		}
		return h.deployment != ""
	})
	h.near, h.far, h.victim = h.join("default"), h.join("gpu"), h.join("default")
	intro, _, err := h.api.ACLIdentity().CreateClientIntroductionToken(&api.ACLIdentityClientIntroductionTokenRequest{}, nil)
	h.must(err)
	h.introduction = intro.JWT
	h.expire = h.token(&api.ACLToken{Type: "management", ExpirationTTL: time.Millisecond})
}

// pool returns RPC connections with the certificate of some files.
func (h *house) pool(files testpki.Files) *rpc.Pool {
	h.t.Helper()
	cfg := files.Config()
	cfg.VerifyServerHostname = files != h.userFiles // the user's certificate has no agent's name
	p := rpc.NewPool(rpc.PoolConfig{Region: "global", TLS: testpki.Open(h.t, cfg)})
	h.t.Cleanup(func() { p.Close() })
	return p
}

func (h *house) rpcAddr() string { return fmt.Sprintf("127.0.0.1:%d", h.server.RPC) }

// join registers a node in a pool that no job uses.
func (h *house) join(nodePool string) *nodeID {
	h.t.Helper()
	n := &nomad.Node{
		Attributes:            map[string]string{"nomad.version": "2.0.6"},
		ID:                    nomad.NewID(),
		SecretID:              nomad.NewID(),
		Datacenter:            "dc1",
		Name:                  "empty",
		NodePool:              nodePool,
		Status:                nomad.NodeStatusInit,
		SchedulingEligibility: "ineligible",
	}
	var out message.NodeUpdateResponse
	ctx, cancel := context.WithTimeout(h.t.Context(), callLimit)
	defer cancel()
	pool := rpc.NewPool(rpc.PoolConfig{Region: "global", TLS: testpki.Open(h.t, h.clientFiles.Config())})
	defer pool.Close() // no server calls the node over its connection
	h.must(pool.Call(ctx, h.rpcAddr(), "Node.Register", &message.NodeRegisterRequest{
		Node:         n,
		WriteRequest: message.WriteRequest{Region: "global"},
	}, &out))
	if out.SignedIdentity == nil {
		h.t.Fatal("a node got no identity")
	}
	return &nodeID{n.ID, n.SecretID, *out.SignedIdentity}
}
