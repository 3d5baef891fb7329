package nodes_test

import (
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestIntroduction_Enforced(t *testing.T) {
	for enforcement, admitted := range map[string][]string{
		idtoken.EnforcementNone: {"nothing", "for any", "for its name", "for another name", "for another pool",
			"of another node"},
		idtoken.EnforcementWarn:   {"nothing", "for any", "for its name"},
		"":                        {"nothing", "for any", "for its name"}, // warn
		idtoken.EnforcementStrict: {"for any", "for its name"},
	} {
		t.Run(enforcement, func(t *testing.T) {
			s, _ := servertest.Start(t, func(c *server.Config) { c.Introduction.Enforcement = enforcement })
			other := servertest.NewFakeNode(t, s)
			if err := other.Register(servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
				t.Fatal(err)
			}
			for name, token := range map[string]string{
				"nothing":          "",
				"for any":          servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{}),
				"for its name":     servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{NodeName: "fake", NodePool: "default"}),
				"for another name": servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{NodeName: "fak"}),
				"for another pool": servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{NodePool: "gpu"}),
				"of another node":  other.JWT,
				"altered":          servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{}) + "A",
				"a secret ID":      nomad.NewID(),
			} {
				n := servertest.NewFakeNode(t, s)
				err := n.Register(token)
				if want := strings.Contains(strings.Join(admitted, ","), name); (err == nil) != want {
					t.Errorf("a token %s: %v, want admitted %t", name, err, want)
				}
				if err != nil && !errors.Is(err, apierror.ErrPermissionDenied) {
					t.Errorf("a token %s: %v is not a refusal", name, err)
				}
				if err == nil && n.Register("") != nil {
					t.Errorf("a token %s: the registered node cannot register again", name)
				}
			}
		})
	}
}

// Of 200 nodes that use one token concurrently, as many are admitted as it allows.
func TestIntroduction_Once(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Introduction.Enforcement = idtoken.EnforcementStrict })
	for _, uses := range []int{0, 1, 7} {
		token := servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{Uses: uses})
		pool := rpc.NewPool(rpc.PoolConfig{})
		t.Cleanup(func() { pool.Close() })
		var mu sync.Mutex
		var wg sync.WaitGroup
		in := 0
		for range 200 {
			n := &servertest.FakeNode{T: t, Pool: pool, Addr: s.RPCAddr(), Node: servertest.MockNode()}
			wg.Go(func() {
				err := n.Register(token)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && n.JWT != "":
					in++
				case !errors.Is(err, apierror.ErrPermissionDenied) || n.JWT != "":
					t.Errorf("refused by %v, with an identity %t", err, n.JWT != "")
				}
			})
		}
		wg.Wait()
		if want := max(uses, 1); in != want {
			t.Errorf("a token for %d nodes admitted %d", want, in)
		}
	}
}

func TestIntroduction_Tokens(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) {
		c.Introduction.Enforcement = idtoken.EnforcementStrict
		c.Introduction.DefaultTTL, c.Introduction.MaxTTL = 10*time.Minute, 20*time.Minute
	})
	for ttl, want := range map[time.Duration]time.Duration{0: 10 * time.Minute, time.Minute: time.Minute, time.Hour: 20 * time.Minute} {
		claims := servertest.Claims(t, servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{TTL: ttl, NodeName: "a"}))
		if got := time.Duration(claims["exp"].(float64)-claims["iat"].(float64)) * time.Second; got != want {
			t.Errorf("a TTL of %v gives %v, want %v", ttl, got, want)
		}
		if claims["sub"] != "node-introduction:global:default:a:default" || claims["nomad_node_pool"] != "default" ||
			claims["nomad_node_uses"] != nil {
			t.Errorf("claims are %v", claims)
		}
	}
	for name, req := range map[string]message.ACLCreateClientIntroductionTokenRequest{
		"negative TTL":  {TTL: -1},
		"negative uses": {Uses: -1},
		"too many uses": {Uses: idtoken.MaxIntroductionUses + 1},
		"pool all":      {NodePool: "all"},
		"bad pool":      {NodePool: "a b"},
		"bad name":      {NodeName: "a:b"},
	} {
		req.Region = "global"
		var coded *apierror.Coded
		if err := s.Call(servertest.Context(t), "ACL.CreateClientIntroductionToken", &req, nil); !errors.As(err, &coded) || coded.Code != 400 {
			t.Errorf("%s: %v, want a 400", name, err)
		}
	}
}

// A server that admits nodes without an introduction reports this at its start and in its
// health.
func TestIntroduction_LaxIsReported(t *testing.T) {
	for enforcement, want := range map[string]string{"": `"warn"`, idtoken.EnforcementWarn: `"warn"`,
		idtoken.EnforcementNone: `"none"`, idtoken.EnforcementStrict: ""} {
		t.Run(enforcement, func(t *testing.T) {
			log := &servertest.Log{}
			s, _ := servertest.StartLogging(t, func(c *server.Config) { c.Introduction.Enforcement = enforcement },
				slog.New(slog.NewTextHandler(log, nil)))
			var health message.OperatorHealthReply
			servertest.Eventually(t, func() bool {
				return s.Call(servertest.Context(t), "Operator.ServerHealth", &message.GenericRequest{}, &health) == nil
			})
			if got := strings.Join(health.Warnings, " "); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("health warns %q", got)
			}
			if got := log.Has("level=WARN", "nodes can join without an introduction token", "strict"); got != (want != "") {
				t.Errorf("the log warns: %t", got)
			}
		})
	}
}

// The client in the leader's process joins without a token, because the process has the keys.
func TestIntroduction_OwnClient(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Introduction.Enforcement = idtoken.EnforcementStrict })
	req := &message.NodeRegisterRequest{Node: servertest.MockNode(), WriteRequest: message.WriteRequest{Region: "global"}}
	if out := servertest.Read[message.NodeUpdateResponse](t, s, "Node.Register", req); out.SignedIdentity == nil {
		t.Error("the client of this agent gets no identity")
	}
	if err := servertest.NewFakeNode(t, s).Register(""); err == nil {
		t.Error("an unknown node joins")
	}
}

// The identity of a node has the claims of Nomad's, and one with the name of the node only where introductions bind it. A
// cluster that begins to bind names replaces the identities without one, and one that ends it accepts those with one.
func TestIntroduction_NameInIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	start := func(enforcement string) (*server.Server, func()) {
		return servertest.Start(t, func(c *server.Config) { c.DataDir, c.Introduction.Enforcement = dir, enforcement })
	}
	plain := "aud exp iat jti nbf nomad_node_datacenter nomad_node_id nomad_node_pool sub"
	named := "aud exp iat jti nbf nomad_node_admitted_name nomad_node_datacenter nomad_node_id nomad_node_pool sub"
	check := func(what, token, want string) {
		t.Helper()
		if got := strings.Join(slices.Sorted(maps.Keys(servertest.Claims(t, token))), " "); got != want {
			t.Errorf("%s: the claims are %s, want %s", what, got, want)
		}
	}
	s, stop := start(idtoken.EnforcementWarn)
	n := servertest.NewFakeNode(t, s)
	if err := n.Register(servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
		t.Fatal(err)
	}
	check("registered", n.JWT, plain)
	check("renewed", *n.Heartbeat(n.JWT, true).SignedIdentity, plain)
	stop()

	s, stop = start(idtoken.EnforcementStrict)
	n.Addr = s.RPCAddr()
	out := n.Heartbeat(n.JWT, false)
	if out.SignedIdentity == nil {
		t.Fatal("a heartbeat with an identity without a name does not replace it")
	}
	check("after strict", *out.SignedIdentity, named)
	if err := n.Register(n.JWT); err != nil {
		t.Fatal(err)
	}
	check("registered after strict", n.JWT, named)
	if again := n.Heartbeat(n.JWT, false); again.SignedIdentity != nil {
		t.Error("a heartbeat replaces an identity with a name")
	}
	stop()

	s, _ = start(idtoken.EnforcementWarn)
	n.Addr = s.RPCAddr()
	if again := n.Heartbeat(n.JWT, false); again.SignedIdentity != nil {
		t.Error("without strict, a heartbeat replaces an identity with a name")
	}
	check("renewed without strict", *n.Heartbeat(n.JWT, true).SignedIdentity, plain)
}
