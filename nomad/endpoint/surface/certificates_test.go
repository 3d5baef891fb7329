package surface_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// The certificates of callers.
const (
	noTLS       = "no TLS"
	noCert      = "no certificate"
	otherCA     = "server certificate of another CA"
	noRole      = "certificate of a user"
	clientHere  = "client certificate"
	serverHere  = "server certificate"
	clientThere = "client certificate of the other region"
	serverThere = "server certificate of the other region"
)

var everyCert = []string{noTLS, noCert, otherCA, noRole, clientHere, serverHere, clientThere, serverThere}

const farCert = "server.far.nomad"

// The routes to the leader of the region.
const (
	direct    = "direct"
	forwarded = "forwarded"              // by a follower
	crossing  = "through another region" // by a server of it
)

// connected lists the certificates that can connect, by route. It is written by hand.
var connected = map[string][]string{
	direct:    {clientHere, serverHere, serverThere},
	forwarded: {clientHere, serverHere, serverThere},
	crossing:  {clientThere, serverThere, serverHere},
}

// named lists the required certificates of the methods that are not open to everyone. It is
// written by hand, not taken from the table of methods. A sufficient certificate still needs
// its token.
var named = map[string][]string{
	"Eval.Ack": {serverHere}, "Eval.Create": {serverHere}, "Eval.Dequeue": {serverHere}, "Eval.Finish": {serverHere},
	"Eval.Nack": {serverHere},
	"Eval.Reap": {serverHere}, "Eval.Reblock": {serverHere}, "Eval.Update": {serverHere},
	"Plan.Submit": {serverHere}, "Deployment.Reap": {serverHere}, "NodeIdentity.Session": {serverHere}, "Status.Regroup": {serverHere},
	// The test has the management token, because ACLs are off.
	"Keyring.Update": {serverHere},
	// Keyring.Get is not supported. Methods of Client... are relayed to nodes.
	"Keyring.Get": {serverHere}, "ClientHostVolume.Create": {serverHere}, "ClientHostVolume.Delete": {serverHere},
	"ClientHostVolume.Register":        {serverHere},
	"ClientCSI.ControllerAttachVolume": {serverHere}, "ClientCSI.ControllerCreateSnapshot": {serverHere},
	"ClientCSI.ControllerCreateVolume":   {serverHere},
	"ClientCSI.ControllerDeleteSnapshot": {serverHere}, "ClientCSI.ControllerDeleteVolume": {serverHere},
	"ClientCSI.ControllerDetachVolume": {serverHere},
	"ClientCSI.ControllerExpandVolume": {serverHere}, "ClientCSI.ControllerListSnapshots": {serverHere},
	"ClientCSI.ControllerListVolumes":    {serverHere},
	"ClientCSI.ControllerValidateVolume": {serverHere}, "ClientCSI.NodeDetachVolume": {serverHere}, "ClientCSI.NodeExpandVolume": {serverHere},
	"ServiceRegistration.Upsert": {clientHere, serverHere}, "CSIVolume.Claim": {clientHere, serverHere},
	"ServiceRegistration.Watch": {clientHere, serverHere},

	"Alloc.GetAllocs": {clientHere, serverHere}, "Alloc.SignIdentities": {clientHere, serverHere},
	"Node.EmitEvents": {clientHere, serverHere}, "Node.UpsertDriverSchemas": {clientHere, serverHere},
	"Node.GetClientAllocs": {clientHere, serverHere}, "Node.UpdateAlloc": {clientHere, serverHere},
	"Node.Register": {clientHere, serverHere}, "Node.UpdateStatus": {clientHere, serverHere}, "Node.Challenge": {clientHere, serverHere},
	"Spiffe.SignX509": {clientHere, serverHere}, "Spiffe.SignJWT": {clientHere, serverHere},
}

// certified is a cluster with TLS and verified names, a server of another region, and callers
// with all kinds of certificates.
type certified struct {
	access
	ca    *testpki.CA
	all   []servertest.Member
	addrs map[string]string // where each route begins
	pools map[string]*rpc.Pool
}

// over configures a caller with a certificate, or without TLS if name is empty. The caller does
// not verify servers' names, so that only the servers refuse.
func over(t *testing.T, ca *testpki.CA, name string) rpc.PoolConfig {
	t.Helper()
	if name == "" {
		return rpc.PoolConfig{Region: "global"}
	}
	cfg := ca.Agent(name).Config()
	cfg.VerifyServerHostname = false
	return rpc.PoolConfig{Region: "global", TLS: testpki.Open(t, cfg)}
}

func newCertified(t *testing.T) *certified {
	t.Helper()
	ca := testpki.New(t)
	speaking := func(c *server.Config) {
		c.RPCMaxConnsPerClient, c.Profiles = -1, profile.New(true) // without access control, profiles need enable_debug
		servertest.WithTLS(t, ca)(c)
	}
	x := &certified{ca: ca, all: servertest.Cluster(t, 3, speaking), pools: map[string]*rpc.Pool{}}
	leader, followers := servertest.Split(t, x.all)
	there := servertest.StartMember(t, "far", func(c *server.Config) {
		c.Region, c.BootstrapExpect, c.StartJoin = "far", 1, []string{leader.GossipAddr()}
		speaking(c)
	})
	for _, m := range []servertest.Member{leader, followers[0], there} {
		servertest.Eventually(t, func() bool { return len(m.Members()) == 4 })
	}
	x.addrs = map[string]string{direct: leader.RPCAddr(), forwarded: followers[0].RPCAddr(), crossing: there.RPCAddr()}
	x.s, x.far = leader.Server, there.Server
	for who, cfg := range map[string]rpc.PoolConfig{noTLS: over(t, ca, ""), otherCA: over(t, testpki.New(t), servertest.ServerCert),
		noRole:     over(t, ca, "cli.global.nomad"),
		clientHere: over(t, ca, servertest.ClientCert), serverHere: over(t, ca, servertest.ServerCert),
		clientThere: over(t, ca, "client.far.nomad"), serverThere: over(t, ca, farCert)} {
		cfg.Serve = servertest.ClientServer(t)
		p := rpc.NewPool(cfg)
		t.Cleanup(func() { p.Close() })
		x.pools[who] = p
	}
	x.a = servertest.JoinWith(t, x.pools[clientHere], leader.RPCAddr())
	servertest.Register(t, leader.Server, servertest.BatchJob("b", 1))
	x.alloc = x.a.Allocs(1)[0]
	return x
}

// attempt calls a method with a certificate and a token.
func (x *certified) attempt(t *testing.T, m rpc.Method, way, cert, token string, relayed bool) error {
	req := x.request(m)
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		r.Query().Region, r.Query().AuthToken, r.Query().Forwarded = "global", token, relayed
	case interface{ Write() *message.WriteRequest }:
		r.Write().Region, r.Write().AuthToken, r.Write().Forwarded = "global", token, relayed
	case interface{ Caller() *message.NodeCall }:
		r.Caller().Region, r.Caller().AuthToken, r.Caller().Forwarded = "global", token, relayed
	}
	return servertest.Retry(t, func(ctx context.Context) error {
		switch {
		case cert == noCert:
			return rawCall(ctx, nil, x.addrs[way], m.Name, req)
		case m.Stream:
			return servertest.StreamError(func() (*rpc.Stream, error) { return x.pools[cert].Stream(ctx, x.addrs[way], m.Name) }, req)
		}
		return x.pools[cert].Call(ctx, x.addrs[way], m.Name, req, nil)
	})
}

// rawCall calls a method over TLS with certificates that a Pool would not use, or with none.
// It implements the protocol itself.
func rawCall(ctx context.Context, own []tls.Certificate, addr, method string, req any) error {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	end, _ := ctx.Deadline()
	raw.SetDeadline(end)
	_, err = raw.Write([]byte{0x04})
	conn := tls.Client(raw, &tls.Config{Certificates: own, InsecureSkipVerify: true})
	_, failed := conn.Write([]byte{0x01})
	enc, dec := msgpack.NewEncoder(conn, codec.MsgpackHandle), msgpack.NewDecoder(conn, codec.MsgpackHandle)
	header := map[string]any{"Seq": uint64(1), "ServiceMethod": method}
	var answer struct{ Error string }
	var body any
	if err = errors.Join(err, failed, enc.Encode(header), enc.Encode(req), dec.Decode(&answer), dec.Decode(&body)); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if answer.Error != "" {
		return apierror.FromText(answer.Error)
	}
	return nil
}

// errNoAnswer is the error of a connection that ends without an answer.
var errNoAnswer = errors.New("no answer")

// unanswered reports whether an error means that no server answered.
func unanswered(err error) bool {
	return err != nil && (errors.Is(err, errNoAnswer) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "rpc error: "))
}

// Every method is called with every kind of certificate on every route to the leader. A method
// requires both a certificate with the right role and region, and its holder's token, on every
// route. The methods in byCertificate need no token at the leader.
func TestMethods_EveryCertificate(t *testing.T) {
	x := newCertified(t)
	if err := rawCall(servertest.Context(t), []tls.Certificate{pairOf(t, x.ca, "client.global.nomad")}, x.addrs[direct], "Status.Ping",
		&message.GenericRequest{}); err != nil {
		t.Fatalf("a call by hand: %v", err)
	}
	table := x.s.Methods()
	for name := range named {
		if !slices.ContainsFunc(table, func(m rpc.Method) bool { return m.Name == name }) {
			t.Errorf("unknown method %s", name)
		}
	}
	for _, m := range table {
		t.Run(m.Name, func(t *testing.T) {
			for _, way := range []string{direct, forwarded, crossing} {
				for _, cert := range everyCert {
					x.check(t, m, way, cert)
				}
			}
		})
	}
}

// check calls one method on one route with one kind of certificate.
func (x *certified) check(t *testing.T, m rpc.Method, way, cert string) {
	t.Helper()
	line := fmt.Sprintf("%s, %s, calls %s", cert, way, m.Name)
	holders, special := named[m.Name]
	token := ""
	switch {
	case special && len(holders) == 1:
		token = ownToken(t, x.s) // stolen; a single token would expire during this test on a slow machine
	case special:
		token = x.a.JWT
	}
	err := x.attempt(t, m, way, cert, token, false)
	if !slices.Contains(connected[way], cert) {
		if !unanswered(err) {
			t.Errorf("%s: %v, want no connection", line, err)
		}
		return
	}
	if unanswered(err) {
		t.Fatalf("%s: %v, want an answer", line, err)
	}
	denied := errors.Is(err, apierror.ErrPermissionDenied)
	if may := !special || way != crossing && slices.Contains(holders, cert); may == denied {
		t.Errorf("%s: %v", line, err)
	}
	if err != nil && strings.Contains(err.Error(), "internal error") {
		t.Errorf("%s: the handler panicked", line)
	}
	if !special {
		return
	}
	if !denied && m.Name != "Node.Register" && m.Name != "Node.Challenge" {
		// A server's certificate alone is sufficient for a few methods, at the leader only.
		opens := way == direct && slices.Contains(byCertificate, m.Name)
		for _, relayed := range []bool{false, true} {
			if err := x.attempt(t, m, way, cert, "", relayed); errors.Is(err, apierror.ErrPermissionDenied) == opens {
				t.Errorf("%s without a token: %v", line, err)
			}
		}
	}
	if denied {
		err := x.attempt(t, m, way, cert, token, true)
		again := way == crossing && errors.Is(err, apierror.ErrNoRegionPath) // a request is forwarded between regions only once
		if !again && !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s as a forwarded request: %v", line, err)
		}
	}
}

// pairOf returns the certificate of an agent with its key.
func pairOf(t *testing.T, ca *testpki.CA, name string) tls.Certificate {
	t.Helper()
	f := ca.Agent(name)
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
