package acl_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestTokens_Invalid(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	is := g.CreateToken(servertest.ClientToken("p"))
	soon, past, far := time.Now().Add(30*time.Second), time.Now().Add(-time.Hour), time.Now().Add(48*time.Hour)
	change := func(edit func(*rbac.Token)) *rbac.Token {
		t := codec.Copy(is)
		edit(t)
		return t
	}
	for name, c := range map[string]struct {
		t    *rbac.Token
		want string
	}{
		"no type":                  {&rbac.Token{Policies: []string{"p"}}, "token type"},
		"management with a policy": {&rbac.Token{Type: "management", Policies: []string{"p"}}, "cannot have policies or roles"},
		"client without":           {servertest.ClientToken(), "at least one policy or role"},
		"unknown role":             {&rbac.Token{Type: "client", Roles: []*rbac.TokenRoleLink{{Name: "none"}}}, "does not exist: none"},
		"empty role":               {&rbac.Token{Type: "client", Roles: []*rbac.TokenRoleLink{{}}}, "does not exist"},
		"long name":                {&rbac.Token{Type: "management", Name: strings.Repeat("a", 257)}, "name"},
		"accessor":                 {&rbac.Token{Type: "management", AccessorID: "me"}, "must be a UUID"},
		"secret":                   {&rbac.Token{Type: "management", SecretID: "me"}, "must be a UUID"},
		"anonymous":                {&rbac.Token{Type: "management", AccessorID: "anonymous"}, "anonymous"},
		"too short":                {&rbac.Token{Type: "management", ExpirationTTL: time.Second}, "token_min_expiration_ttl"},
		"too long":                 {&rbac.Token{Type: "management", ExpirationTTL: 25 * time.Hour}, "token_max_expiration_ttl"},
		"negative":                 {&rbac.Token{Type: "management", ExpirationTTL: -time.Hour}, "negative"},
		"ends too soon":            {&rbac.Token{Type: "management", ExpirationTime: &soon}, "token_min_expiration_ttl"},
		"ends too late":            {&rbac.Token{Type: "management", ExpirationTime: &far}, "token_max_expiration_ttl"},
		"has ended":                {&rbac.Token{Type: "management", ExpirationTime: &past}, "past"},
		"TTL and end": {&rbac.Token{Type: "management", ExpirationTTL: time.Hour, ExpirationTime: &far},
			"both an expiration TTL"},
		"the secret of another": {&rbac.Token{Type: "management", SecretID: is.SecretID}, "have the same secret"},
		"another type": {change(func(t *rbac.Token) { t.Type, t.Policies = "management", nil }),
			"type of a token cannot be changed"},
		"another secret": {change(func(t *rbac.Token) { t.SecretID = nomad.NewID() }), "secret of a token cannot be changed"},
		"another end":    {change(func(t *rbac.Token) { t.ExpirationTTL = time.Hour }), "cannot be changed"},
		"everywhere":     {change(func(t *rbac.Token) { t.Global = true }), "global cannot be changed"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := g.CreateTokens(c.t)
			if !servertest.IsCoded(err, 400, c.want) || len(out) != 0 {
				t.Errorf("%v, want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), is.SecretID) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
	if _, err := g.CreateTokens(&rbac.Token{Type: "management"},
		&rbac.Token{Type: "management", Global: true}); !servertest.IsCoded(err, 400, "mixed global") {
		t.Errorf("global and others: %v", err)
	}
	if _, err := g.CreateTokens(is, is); !servertest.IsCoded(err, 400, "duplicate token") {
		t.Errorf("one twice: %v", err)
	}
}

func TestTokens_Update(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	r := g.CreateRole(&rbac.Role{Name: "r", Policies: servertest.PolicyLinks("p")})
	chosen := &rbac.Token{AccessorID: nomad.NewID(), SecretID: nomad.NewID(), Type: "client", ExpirationTTL: time.Hour,
		Roles: []*rbac.TokenRoleLink{{Name: "r"}, {ID: r.ID}}}
	made := g.CreateToken(chosen)
	if made.AccessorID != chosen.AccessorID || made.SecretID != chosen.SecretID ||
		!made.ExpirationTime.Equal(made.CreateTime.Add(time.Hour)) ||
		len(made.Roles) != 1 || *made.Roles[0] != (rbac.TokenRoleLink{ID: r.ID, Name: "r"}) {
		t.Fatalf("created %+v", made.Stub())
	}
	next := g.CreateToken(&rbac.Token{AccessorID: made.AccessorID, Name: "new", Policies: []string{"p", "later"}})
	if next.SecretID != made.SecretID || next.Type != "client" || next.Name != "new" || next.CreateIndex != made.CreateIndex ||
		next.ModifyIndex <= made.ModifyIndex ||
		!next.ExpirationTime.Equal(*made.ExpirationTime) || !next.CreateTime.Equal(made.CreateTime) || slices.Equal(next.Hash, made.Hash) ||
		len(next.Roles) != 0 {
		t.Errorf("updated to %+v", next.Stub())
	}
	var own, other message.SingleACLTokenResponse
	if err := g.Call(next.SecretID, "ACL.GetToken", &message.ACLTokenSpecificRequest{AccessorID: next.AccessorID}, &own); err != nil ||
		own.Token.SecretID != next.SecretID {
		t.Errorf("a token reads itself: %v", err)
	}
	if err := g.Call(g.Root, "ACL.GetToken", &message.ACLTokenSpecificRequest{AccessorID: nomad.NewID()}, &other); err != nil ||
		other.Token != nil {
		t.Errorf("a missing token: %+v, %v", other.Token, err)
	}
	for _, secret := range []string{"", next.SecretID} {
		if err := g.Call(secret, "ACL.GetToken", &message.ACLTokenSpecificRequest{AccessorID: nomad.NewID()}, nil); !errors.Is(err,
			apierror.ErrPermissionDenied) {
			t.Errorf("another caller's token: %v", err)
		}
	}
	for secret, want := range map[string]string{next.SecretID: next.AccessorID, nomad.NewID(): "", "": "", next.AccessorID: ""} {
		var out message.ResolveACLTokenResponse
		if err := g.Call("", "ACL.ResolveToken", &message.ResolveACLTokenRequest{SecretID: secret}, &out); err != nil ||
			(out.Token == nil) != (want == "") || out.Token != nil && out.Token.AccessorID != want {
			t.Errorf("a secret is of %v, %v, want %q", out.Token, err, want)
		}
	}
	g.Must("ACL.DeleteRolesByID", &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{r.ID}}, nil)
	if err := g.Call(g.Root, "ACL.DeleteRolesByID", &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{r.ID}},
		nil); !servertest.IsCoded(err, 404, "ACL role not found") {
		t.Errorf("a deleted role: %v", err)
	}
	g.Must("ACL.DeleteTokens", &message.ACLTokenDeleteRequest{AccessorIDs: []string{next.AccessorID}}, nil)
	if err := g.Call(next.SecretID, "ACL.ListPolicies", &message.ACLPolicyListRequest{}, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a deleted token: %v", err)
	}
	for accessor, code := range map[string]int{next.AccessorID: 404, "anonymous": 400} {
		if err := g.Call(g.Root, "ACL.DeleteTokens", &message.ACLTokenDeleteRequest{AccessorIDs: []string{accessor}},
			nil); !servertest.IsCoded(err, code, "") {
			t.Errorf("deleting %s: %v", accessor, err)
		}
	}
}

// Lists support pages and filters, and contain no secrets.
func TestTokens_List(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	var made []string
	for i := range 5 {
		token := servertest.ClientToken("p")
		token.Name, token.Global = fmt.Sprint("token ", i), i == 4
		made = append(made, g.CreateToken(token).AccessorID)
	}
	var got []string
	q := message.QueryOptions{PerPage: 2}
	for {
		var page message.ACLTokenListResponse
		g.Must("ACL.ListTokens", &message.ACLTokenListRequest{QueryOptions: q}, &page)
		for _, stub := range page.Tokens {
			got = append(got, stub.AccessorID)
		}
		if q.NextToken = page.NextToken; q.NextToken == "" {
			break
		}
	}
	if !slices.Equal(got[1:], made) {
		t.Errorf("the pages hold %q, want the first token and %q", got, made)
	}
	for name, c := range map[string]struct {
		req  message.ACLTokenListRequest
		want int
	}{
		"filter":         {message.ACLTokenListRequest{QueryOptions: message.QueryOptions{Filter: `Name == "token 3"`}}, 1},
		"secret":         {message.ACLTokenListRequest{QueryOptions: message.QueryOptions{Filter: `SecretID matches "."`}}, 0},
		"prefix":         {message.ACLTokenListRequest{QueryOptions: message.QueryOptions{Prefix: made[0][:20]}}, 1},
		"global":         {message.ACLTokenListRequest{GlobalOnly: true}, 2},
		"global, prefix": {message.ACLTokenListRequest{GlobalOnly: true, QueryOptions: message.QueryOptions{Prefix: made[4][:20]}}, 1},
	} {
		var list message.ACLTokenListResponse
		if err := g.Call(g.Root, "ACL.ListTokens", &c.req, &list); len(list.Tokens) != c.want {
			t.Errorf("%s: %d tokens, %v, want %d", name, len(list.Tokens), err, c.want)
		}
	}
}

func TestRoles_Invalid(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	g.CreateRole(&rbac.Role{Name: "r", Policies: servertest.PolicyLinks("p", "p")})
	for name, c := range map[string]struct {
		r    rbac.Role
		code int
		want string
	}{
		"name":           {rbac.Role{Name: "a b", Policies: servertest.PolicyLinks("p")}, 400, "invalid role name"},
		"no policy":      {rbac.Role{Name: "q"}, 400, "at least one policy"},
		"missing policy": {rbac.Role{Name: "q", Policies: servertest.PolicyLinks("none")}, 400, `"none" does not exist`},
		"name of other":  {rbac.Role{Name: "r", Policies: servertest.PolicyLinks("p")}, 400, "has this name"},
		"unknown ID":     {rbac.Role{ID: nomad.NewID(), Name: "q", Policies: servertest.PolicyLinks("p")}, 404, "ACL role not found"},
	} {
		t.Run(name, func(t *testing.T) {
			req := &message.ACLRolesUpsertRequest{ACLRoles: []*rbac.Role{&c.r}, AllowMissingPolicies: true}
			if err := g.Call(g.Root, "ACL.UpsertRoles", req, nil); !servertest.IsCoded(err, c.code, c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// Of many callers with the secret of a one-time token, one gets the token.
func TestOneTimeToken_Once(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.CreatePolicy("p", "default", nil)
	own := g.CreateToken(servertest.ClientToken("p"))
	upsert := func(secret string) (*rbac.OneTimeToken, error) {
		var out message.OneTimeTokenUpsertResponse
		err := g.Call(secret, "ACL.UpsertOneTimeToken", &message.OneTimeTokenUpsertRequest{}, &out)
		return out.OneTimeToken, err
	}
	if _, err := upsert(""); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("without a token: %v", err)
	}
	before, err := upsert(own.SecretID)
	if err != nil {
		t.Fatal(err)
	}
	once, err := upsert(own.SecretID)
	if err != nil || once.AccessorID != own.AccessorID || time.Until(once.ExpiresAt) > rbac.OneTimeTokenTTL {
		t.Fatalf("%+v, %v", once, err)
	}
	exchange := func(secret string) error {
		var out message.OneTimeTokenExchangeResponse
		err := g.Call("", "ACL.ExchangeOneTimeToken", &message.OneTimeTokenExchangeRequest{OneTimeSecretID: secret}, &out)
		if err == nil && out.Token.SecretID != own.SecretID {
			t.Errorf("another token: %v", out.Token)
		}
		return err
	}
	denied := func(err error) bool { return errors.Is(err, apierror.ErrPermissionDenied) }
	for what, secret := range map[string]string{"an earlier one": before.OneTimeSecretID, "none": "", "an unknown one": nomad.NewID(),
		"the accessor": own.AccessorID} {
		if err := exchange(secret); !denied(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if won := race(200, func() error { return exchange(once.OneTimeSecretID) }, denied, t); won != 1 {
		t.Errorf("%d callers got the token", won)
	}
	third, err := upsert(own.SecretID)
	if err != nil {
		t.Fatal(err)
	}
	g.Must("ACL.ExpireOneTimeTokens", &message.OneTimeTokenExpireRequest{Timestamp: time.Now().Add(time.Hour)}, nil)
	g.Must("ACL.DeleteTokens", &message.ACLTokenDeleteRequest{AccessorIDs: []string{own.AccessorID}}, nil)
	if err := exchange(third.OneTimeSecretID); !denied(err) {
		t.Errorf("the token was deleted: %v", err)
	}
}

// joinAs registers a node at a server with ACLs.
func joinAs(t *testing.T, g *servertest.ACLServer) *servertest.FakeNode {
	t.Helper()
	return servertest.Join(t, g.Server.RPCAddr())
}

func TestTokens_Expired(t *testing.T) {
	g := servertest.StartACL(t, func(c *server.Config) {
		c.Access.TokenMinTTL, c.ACLTokenGCThreshold = time.Millisecond, time.Millisecond
	})
	for _, global := range []bool{true, false} {
		short := g.CreateToken(&rbac.Token{Type: "management", ExpirationTTL: 20 * time.Millisecond, Global: global})
		servertest.Eventually(t, func() bool { return short.HasExpired(time.Now()) })
		if err := g.Call(short.SecretID, "ACL.ListTokens", &message.ACLTokenListRequest{}, nil); !errors.Is(err, apierror.ErrPermissionDenied) &&
			!errors.Is(err, apierror.ErrTokenExpired) {
			t.Errorf("an expired token: %v", err)
		}
	}
	count := func() int {
		var list message.ACLTokenListResponse
		g.Must("ACL.ListTokens", &message.ACLTokenListRequest{}, &list)
		return len(list.Tokens)
	}
	if n := count(); n != 3 {
		t.Fatalf("%d tokens before", n)
	}
	g.Must("System.GarbageCollect", &message.GenericRequest{}, nil)
	servertest.Eventually(t, func() bool { return count() == 1 })
}

// Core evaluations carry the leader's token to the servers that process them.
func TestTokens_CollectedByFollower(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		c.Access.Enabled, c.Access.TokenMinTTL = true, time.Millisecond
		if c.Name == "s0" {
			c.Workers = -1
		}
	})
	g := servertest.NewACLServer(t, all[0].Server)
	first, err := g.Bootstrap("")
	if err != nil {
		t.Fatal(err)
	}
	g.Root = first.SecretID
	id := all[0].Self().Tags["id"]
	servertest.Eventually(t, func() bool {
		_, now := all[0].Leader()
		if now != id {
			g.Call(g.Root, "Operator.TransferLeadershipToPeer", &message.RaftPeerRequest{RaftIDAddress: message.RaftIDAddress{ID: id}},
				nil) //nolint:errcheck // it is repeated
		}
		return now == id
	})
	short := g.CreateToken(&rbac.Token{Type: "management", ExpirationTTL: 20 * time.Millisecond})
	servertest.Eventually(t, func() bool { return short.HasExpired(time.Now()) })
	servertest.Eventually(t, func() bool {
		g.Must("System.GarbageCollect", &message.GenericRequest{}, nil) // the work of the previous leader is lost
		return servertest.ReadRoot[message.SingleACLTokenResponse](g, "ACL.GetToken",
			&message.ACLTokenSpecificRequest{AccessorID: short.AccessorID}).Token == nil
	})
}
