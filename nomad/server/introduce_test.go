package server_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// introduce creates an introduction token.
func introduce(t *testing.T, s *server.Server, req message.ACLCreateClientIntroductionTokenRequest) string {
	t.Helper()
	return read[message.ACLCreateClientIntroductionTokenResponse](t, s, "ACL.CreateClientIntroductionToken", &req).JWT
}

// stranger returns a node that no server has seen.
func stranger(t *testing.T, s *server.Server) *fakeNode {
	n := &fakeNode{t: t, pool: rpc.NewPool(rpc.PoolConfig{}), addr: s.RPCAddr(), node: mockNode()}
	t.Cleanup(func() { n.pool.Close() })
	return n
}

// enter registers a node with a token.
func (n *fakeNode) enter(token string) error {
	var out message.NodeUpdateResponse
	err := n.call("Node.Register", &message.NodeRegisterRequest{Node: n.node, CreateNodePool: true, WriteRequest: n.write(token)}, &out)
	if err == nil && out.SignedIdentity != nil {
		n.jwt = *out.SignedIdentity
	}
	return err
}

func TestIntroductionIsEnforced(t *testing.T) {
	for enforcement, admitted := range map[string][]string{
		nomad.NodeIntroductionEnforcementNone:   {"nothing", "for any", "for its name", "for another name", "for another pool", "of another node"},
		nomad.NodeIntroductionEnforcementWarn:   {"nothing", "for any", "for its name"},
		"":                                      {"nothing", "for any", "for its name"}, // warn
		nomad.NodeIntroductionEnforcementStrict: {"for any", "for its name"},
	} {
		t.Run(enforcement, func(t *testing.T) {
			s, _ := start(t, func(c *server.Config) { c.Introduction.Enforcement = enforcement })
			other := stranger(t, s)
			if err := other.enter(introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})); err != nil {
				t.Fatal(err)
			}
			for name, token := range map[string]string{
				"nothing":          "",
				"for any":          introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{}),
				"for its name":     introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{NodeName: "fake", NodePool: "default"}),
				"for another name": introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{NodeName: "fak"}),
				"for another pool": introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{NodePool: "gpu"}),
				"of another node":  other.jwt,
				"altered":          introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{}) + "A",
				"a secret ID":      nomad.NewID(),
			} {
				n := stranger(t, s)
				err := n.enter(token)
				if want := strings.Contains(strings.Join(admitted, ","), name); (err == nil) != want {
					t.Errorf("a token %s: %v, want admitted %t", name, err, want)
				}
				if err != nil && !errors.Is(err, nomad.ErrPermissionDenied) {
					t.Errorf("a token %s: %v is not a refusal", name, err)
				}
				if err == nil && n.enter("") != nil {
					t.Errorf("a token %s: the registered node cannot register again", name)
				}
			}
		})
	}
}

// Of 200 nodes that use one token concurrently, as many are admitted as it allows.
func TestIntroductionIsUsedUp(t *testing.T) {
	s, _ := start(t, func(c *server.Config) { c.Introduction.Enforcement = nomad.NodeIntroductionEnforcementStrict })
	for _, uses := range []int{0, 1, 7} {
		token := introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{Uses: uses})
		pool := rpc.NewPool(rpc.PoolConfig{})
		t.Cleanup(func() { pool.Close() })
		var mu sync.Mutex
		var wg sync.WaitGroup
		in := 0
		for range 200 {
			n := &fakeNode{t: t, pool: pool, addr: s.RPCAddr(), node: mockNode()}
			wg.Go(func() {
				err := n.enter(token)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && n.jwt != "":
					in++
				case !errors.Is(err, nomad.ErrPermissionDenied) || n.jwt != "":
					t.Errorf("refused by %v, with an identity %t", err, n.jwt != "")
				}
			})
		}
		wg.Wait()
		if want := max(uses, 1); in != want {
			t.Errorf("a token for %d nodes admitted %d", want, in)
		}
	}
}

func TestIntroductionTokens(t *testing.T) {
	s, _ := start(t, func(c *server.Config) {
		c.Introduction.Enforcement = nomad.NodeIntroductionEnforcementStrict
		c.Introduction.DefaultTTL, c.Introduction.MaxTTL = 10*time.Minute, 20*time.Minute
	})
	for ttl, want := range map[time.Duration]time.Duration{0: 10 * time.Minute, time.Minute: time.Minute, time.Hour: 20 * time.Minute} {
		claims := claimsOf(t, introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{TTL: ttl, NodeName: "a"}))
		if got := time.Duration(claims["exp"].(float64)-claims["iat"].(float64)) * time.Second; got != want {
			t.Errorf("a TTL of %v gives %v, want %v", ttl, got, want)
		}
		if claims["sub"] != "node-introduction:global:default:a:default" || claims["nomad_node_pool"] != "default" || claims["nomad_node_uses"] != nil {
			t.Errorf("claims are %v", claims)
		}
	}
	for name, req := range map[string]message.ACLCreateClientIntroductionTokenRequest{
		"negative TTL":  {TTL: -1},
		"negative uses": {Uses: -1},
		"too many uses": {Uses: nomad.MaxIntroductionUses + 1},
		"pool all":      {NodePool: "all"},
		"bad pool":      {NodePool: "a b"},
		"bad name":      {NodeName: "a:b"},
	} {
		req.Region = "global"
		var coded *nomad.CodedError
		if err := s.Call(within(t), "ACL.CreateClientIntroductionToken", &req, nil); !errors.As(err, &coded) || coded.Code != 400 {
			t.Errorf("%s: %v, want a 400", name, err)
		}
	}
}

// claimsOf returns the claims of a token.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	var claims map[string]any
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = json.Unmarshal(body, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return claims
}
