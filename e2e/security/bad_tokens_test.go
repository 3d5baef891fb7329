package security_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testtokens"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// listener is an endpoint that accepts tokens. enter returns the error for the bearer, or "" if the
// token is accepted.
type listener struct {
	name   string
	holder string // kind of tokens that it accepts
	enter  func(token string) string
}

// Errors for rejected callers.
const (
	httpRefusal   = "403 Permission denied"
	socketRefusal = "403 Forbidden"
	rpcRefusal    = "Permission denied"
	workerRefusal = "needs the identity of a server, or TLS: certificate of a server is needed, but this server has tls.rpc off: Permission denied"
)

// workerDoor also accepts the certificate of a server, and its errors mention it.
const workerListener = "RPC of scheduler workers"

// isDisconnected reports whether an answer rejects headers or a streaming request for their length: the
// server does not read them to the end.
func isDisconnected(answer string) bool {
	return strings.HasPrefix(answer, "431 ") || strings.HasPrefix(answer, "413 ") || strings.Contains(answer, "connection reset") ||
		strings.Contains(answer, "broken pipe")
}

// stolen extracts the private keys from a snapshot. They sign tokens that are bad in one way and
// otherwise valid.
func stolen(t *testing.T, a *cluster.Agent) testtokens.Maker {
	t.Helper()
	m := harness.StolenKeys(t, a)
	if m.RSA == nil {
		t.Fatal("the snapshot holds no RSA key")
	}
	return m
}

// visitor tries tokens at the endpoints of an agent.
type visitor struct {
	t      *testing.T
	a      *cluster.Agent
	pool   *rpc.Pool
	addr   string
	holder harness.Holder
	socket *http.Client
	node   string
}

func newVisitor(t *testing.T, a *cluster.Agent, h harness.Holder) *visitor {
	t.Helper()
	node, err := a.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, a: a, pool: rpc.NewPool(rpc.PoolConfig{}), addr: fmt.Sprintf("127.0.0.1:%d", a.RPC), holder: h,
		socket: harness.SocketClient(t, h), node: node}
	t.Cleanup(func() { v.pool.Close() })
	return v
}

// overHTTP is the endpoint of a route.
func (v *visitor) overHTTP(c *http.Client, method, url, header, before string) func(string) string {
	seen := "" // the headers of a rejection
	return func(token string) string {
		ctx, cancel := context.WithTimeout(v.t.Context(), harness.Patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, url, nil)
		if err != nil {
			v.t.Fatal(err)
		}
		req.Header.Set(header, before+token)
		resp, err := c.Do(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return ""
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		delete(resp.Header, "Date")
		if got := fmt.Sprint(resp.Header); resp.StatusCode == http.StatusForbidden && seen == "" {
			seen = got
		} else if resp.StatusCode == http.StatusForbidden && got != seen {
			v.t.Errorf("%s answers with the headers %v, to another token with %v", url, got, seen)
		}
		return fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
}

// overRPC is the endpoint of a method.
func (v *visitor) overRPC(method string, request func(token string) any) func(string) string {
	return func(token string) string {
		ctx, cancel := context.WithTimeout(v.t.Context(), harness.Patience)
		defer cancel()
		if err := v.pool.Call(ctx, v.addr, method, request(token), nil); err != nil {
			return err.Error()
		}
		return ""
	}
}

func (v *visitor) query(token string) message.QueryOptions {
	return message.QueryOptions{Region: "global", AuthToken: token}
}

func (v *visitor) write(token string) message.WriteRequest {
	return message.WriteRequest{Region: "global", AuthToken: token}
}

// overStream is the endpoint of a streaming method.
func (v *visitor) overStream(token string) string {
	ctx, cancel := context.WithTimeout(v.t.Context(), harness.Patience)
	defer cancel()
	st, err := v.pool.Stream(ctx, v.addr, "FileSystem.Stream")
	if err != nil {
		return err.Error()
	}
	defer st.Close()
	if err := st.Encode(&message.FsStreamRequest{AllocID: v.holder.Alloc.ID, Path: "t/executor.out", Origin: "start",
		QueryOptions: v.query(token)}); err != nil {
		return err.Error()
	}
	var first message.StreamErrWrapper
	if err := st.Decode(&first); err != nil {
		return err.Error()
	}
	switch {
	case first.Error == nil:
	case first.Error.Message == rpcRefusal:
		return first.Error.Message
	case first.Error.Code != nil && *first.Error.Code == http.StatusRequestEntityTooLarge:
		return "413 " + first.Error.Message
	}
	return "" // the file may not exist
}

// doors returns all endpoints.
func (v *visitor) doors() []listener {
	base, tcp := v.a.Address(), &http.Client{Transport: &http.Transport{DisableCompression: true}}
	v.t.Cleanup(tcp.CloseIdleConnections)
	token := "X-Nomad-Token"
	fresh := func(token string) any {
		return &message.NodeRegisterRequest{CreateNodePool: true, WriteRequest: v.write(token),
			Node: &nomad.Node{ID: nomad.NewID(), SecretID: nomad.NewID(), Datacenter: "dc1", Name: "burglar", NodePool: "default",
				Attributes: map[string]string{"nomad.version": "2.0.6"}, Status: nomad.NodeStatusInit}}
	}
	return []listener{
		{"HTTP", "workload", v.overHTTP(tcp, "GET", base+"/v1/jobs", token, "")},
		{"HTTP bearer", "workload", v.overHTTP(tcp, "GET", base+"/v1/jobs", "Authorization", "Bearer ")},
		{"HTTP blocking", "workload", v.overHTTP(tcp, "GET", base+"/v1/nodes?index=1&wait=100ms", token, "")},
		{"HTTP stale", "workload", v.overHTTP(tcp, "GET", base+"/v1/allocations?stale", token, "")},
		{"HTTP write", "workload", v.overHTTP(tcp, "PUT", base+"/v1/node/"+v.node+"/evaluate", token, "")},
		{"HTTP stream", "workload", v.overHTTP(tcp, "GET", base+"/v1/client/fs/logs/"+v.holder.Alloc.ID+"?task=t&type=stdout", token, "")},
		{"HTTP of the agent", "workload", v.overHTTP(tcp, "GET", base+"/v1/agent/self", token, "")},
		{"HTTP of the node", "workload", v.overHTTP(tcp, "GET", base+"/v1/client/stats", token, "")},
		{"Task API", "workload", v.overHTTP(v.socket, "GET", "http://task/v1/jobs", token, "")},
		{"Task API bearer", "workload", v.overHTTP(v.socket, "GET", "http://task/v1/agent/self", "Authorization", "bearer ")},
		{"RPC", "workload", v.overRPC("Job.List", func(token string) any { return &message.JobListRequest{QueryOptions: v.query(token)} })},
		{"RPC stream", "workload", v.overStream},
		{"RPC of nodes", "node", v.overRPC("Node.GetClientAllocs", func(token string) any {
			return &message.NodeSpecificRequest{NodeID: v.node, QueryOptions: v.query(token)}
		})},
		{"RPC signing", "node", v.overRPC("Alloc.SignIdentities", func(token string) any {
			return &message.AllocIdentitiesRequest{QueryOptions: v.query(token),
				Identities: []*message.WorkloadIdentityRequest{{AllocID: v.holder.Alloc.ID,
					WIHandle: message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t"}}}}
		})},
		{"heartbeat", "node", v.overRPC("Node.UpdateStatus", func(token string) any {
			return &message.NodeUpdateStatusRequest{NodeID: v.node, Status: nomad.NodeStatusReady, WriteRequest: v.write(token)}
		})},
		{"registration", "introduction", v.overRPC("Node.Register", fresh)},
		{"RPC of servers", "server", v.overRPC("Status.Regroup", func(token string) any {
			return &message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: token}}
		})},
		{workerListener, "server", v.overRPC("Eval.Dequeue", func(token string) any {
			return &message.EvalDequeueRequest{Schedulers: []string{"none"}, Timeout: time.Millisecond, WriteRequest: v.write(token)}
		})},
	}
}

// holders returns valid claims for each kind of endpoint.
func (v *visitor) holders() map[string]map[string]any {
	now := time.Now().Unix()
	with := func(claims map[string]any) map[string]any {
		for name, value := range map[string]any{"aud": "nomadproject.io", "iat": now, "nbf": now, "exp": now + 50, "sub": "x"} {
			claims[name] = value
		}
		return claims
	}
	return map[string]map[string]any{
		"workload": with(map[string]any{"nomad_namespace": "default", "nomad_job_id": "holder", "nomad_allocation_id": v.holder.Alloc.ID,
			"nomad_task": "t"}),
		"node": with(map[string]any{"nomad_node_id": v.node, "nomad_node_pool": "default", "nomad_node_class": "",
			"nomad_node_datacenter": "dc1"}),
		"introduction": with(map[string]any{"nomad_node_pool": "default", "nomad_node_name": "", "jti": nomad.NewID()}),
		"server":       with(map[string]any{"nomad_server_id": nomad.NewID()}),
	}
}

// overRPC reports whether the endpoint accepts tokens in RPC requests, not in headers.
func (d listener) overRPC() bool {
	return d.refusal() == rpcRefusal || d.refusal() == workerRefusal
}

// refusal returns the endpoint's error for rejected callers.
func (d listener) refusal() string {
	switch {
	case strings.HasPrefix(d.name, "HTTP"):
		return httpRefusal
	case strings.HasPrefix(d.name, "Task API"):
		return socketRefusal
	case d.name == workerListener:
		return workerRefusal
	}
	return rpcRefusal
}

// disconnects returns the length from which the endpoint may reject a token without reading it to the
// end.
func (d listener) disconnects() int {
	switch {
	case !d.overRPC():
		return 64 << 10
	case d.name == "RPC stream":
		return 256 << 10 // the largest streaming request
	}
	return math.MaxInt
}

// isHeader reports whether an HTTP client can send a token.
func isHeader(token string) bool {
	return !strings.ContainsFunc(token, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) && strings.TrimSpace(token) == token
}

// Every bad token is rejected at every endpoint with the same error, whatever is wrong with it; the
// valid one is accepted. None of them appears in the log.
func TestBadTokens_AllListeners(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	job := harness.OneTask("rsa", "/bin/sleep", "600")
	job.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{{Name: "rs", Audience: []string{"x"}, TTL: time.Hour, Alg: "RS256"}}
	harness.Register(t, a, job, "running")
	v := newVisitor(t, a, harness.Hold(t, a, data, "holder"))
	m := stolen(t, a)
	gone := harness.Hold(t, a, data, "gone")
	if _, _, err := a.Client.Jobs().Deregister("gone", false, nil); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "the allocation has ended", func() bool {
		allocs, _, err := a.Client.Jobs().Allocations("gone", true, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus != api.AllocClientStatusRunning
	})
	refused, tried := 0, map[string]bool{}
	for _, d := range v.doors() {
		holders := v.holders() // valid for a minute or two, and an endpoint may take long
		m.Claims = holders[d.holder]
		bad := append(m.Bad(), v.foreignTokens(m, holders, d, gone)...)
		for _, b := range bad {
			if !d.overRPC() && !isHeader(b.Raw) {
				continue
			}
			got := d.enter(b.Raw)
			if got != d.refusal() && (len(b.Raw) < d.disconnects() || !isDisconnected(got)) {
				t.Errorf("%s, %s: answered %.200q, want %q", d.name, b.Name, got, d.refusal())
			}
			refused++
			tried[b.Raw] = true
		}
		if got := d.enter(m.Good()); got != "" {
			t.Errorf("%s: the valid token gets %q", d.name, got)
		}
		m.Claims = nil
	}
	t.Logf("%d rejections", refused)
	nodes, _, err := a.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 2 { // the agent's and the one with the valid token
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	v.unknownKey(m, v.holders())
	log := harness.Content(t, filepath.Join(a.Dir, "agent.log"))
	tried[v.holder.Token], tried[gone.Token] = true, true
	for raw := range tried {
		if len(raw) > 60 && strings.Contains(log, raw[len(raw)-40:]) && strings.Trim(raw, ".") != "" {
			t.Errorf("the log holds a part of a token: %.80q", raw[len(raw)-40:])
		}
	}
	if strings.Contains(log, "eyJhbGciOi") {
		t.Error("the log holds what looks like a token")
	}
	v.removedKey(m, v.holders())
}

// foreignTokens returns valid tokens of other holders.
func (v *visitor) foreignTokens(m testtokens.Maker, holders map[string]map[string]any, d listener, gone harness.Holder) []testtokens.Token {
	var out []testtokens.Token
	add := func(name string, claims map[string]any) {
		out = append(out, testtokens.Token{Name: name, Raw: m.Sign(claims)})
	}
	for kind, claims := range holders {
		special := d.holder == "workload" && kind == "node" || d.name == "registration" && kind == "node"
		if kind != d.holder && !special {
			add("token of a "+kind, claims)
		}
	}
	switch d.holder {
	case "workload":
		add("allocation that is over", m.With(map[string]any{"nomad_allocation_id": gone.Alloc.ID, "nomad_job_id": "gone"}))
		add("unknown allocation", m.With(map[string]any{"nomad_allocation_id": nomad.NewID()}))
		add("allocation of another namespace", m.With(map[string]any{"nomad_namespace": "other"}))
		add("part of an allocation's ID", m.With(map[string]any{"nomad_allocation_id": v.holder.Alloc.ID[:8]}))
		add("no allocation", m.With(map[string]any{"nomad_allocation_id": ""}))
		out = append(out, testtokens.Token{Name: "allocation that is over, its own token", Raw: gone.Token},
			testtokens.Token{Name: "made for others", Raw: v.holder.AWS})
	case "node":
		add("another node", m.With(map[string]any{"nomad_node_id": nomad.NewID()}))
		add("no node", m.With(map[string]any{"nomad_node_id": ""}))
	case "introduction":
		add("introduction for another pool", m.With(map[string]any{"nomad_node_pool": "gpu"}))
		add("introduction for another name", m.With(map[string]any{"nomad_node_name": "honest"}))
		add("token of another node", holders["node"])
		add("introduction without an ID", m.With(map[string]any{"jti": nil}))
	}
	if d.holder != "workload" { // without ACLs a secret ID is valid for everybody
		out = append(out, testtokens.Token{Name: "a secret ID of nobody", Raw: nomad.NewID()})
	}
	return out
}

// unknownWithin is the maximum time to reject a token with an unknown key, as the minimum of many
// tries.
const unknownWithin = 5 * time.Millisecond

// unknownKey measures the time to reject a token with an unknown key.
func (v *visitor) unknownKey(m testtokens.Maker, holders map[string]map[string]any) {
	v.t.Helper()
	m.Kid = nomad.NewID()
	for _, d := range v.doors() {
		raw, least := m.Sign(holders[d.holder]), time.Hour
		for tries := 0; tries < 20 || tries < 2000 && least > unknownWithin; tries++ {
			begun := time.Now()
			if got := d.enter(raw); got != d.refusal() {
				v.t.Fatalf("%s: an unknown key gets %q", d.name, got)
			}
			least = min(least, time.Since(begun))
		}
		if least > unknownWithin {
			v.t.Errorf("%s: an unknown key is rejected after %v, want %v", d.name, least, unknownWithin)
		}
	}
}

// removedKey removes the key: all tokens that it signed are rejected from then on.
func (v *visitor) removedKey(m testtokens.Maker, holders map[string]map[string]any) {
	v.t.Helper()
	if _, _, err := v.a.Client.Keyring().Rotate(nil, nil); err != nil {
		v.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(v.t.Context(), "DELETE", v.a.Address()+"/v1/operator/keyring/key/"+m.Kid+"?force=true", nil)
	if err != nil {
		v.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		v.t.Fatalf("remove the key: %d %s %v", resp.StatusCode, body, err)
	}
	for _, d := range v.doors() {
		if got := d.enter(m.Sign(holders[d.holder])); got != d.refusal() {
			v.t.Errorf("%s: a token of a removed key gets %q", d.name, got)
		}
	}
	if _, err := os.Stat(v.holder.Secrets); errors.Is(err, os.ErrNotExist) {
		v.t.Error("the task has ended")
	}
}
