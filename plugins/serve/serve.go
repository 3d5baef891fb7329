// Package serve makes a drivers.Driver a program that clients of Nomad and of this project can start as
// an external driver. The main function of the program calls Serve.
//
//	client ──exec──▶ program: Serve ──handshake on stdout──▶ client ──gRPC over a unix socket──▶ Driver
//
// The program runs until the client ends it. Its tasks must not depend on the process: they continue,
// and the next process gets their handles (RecoverTask). A DNS configuration is an error for a driver
// without Capabilities.DNS.
//
// Goroutines are those of gRPC: one for each call and stream.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Config configures Serve.
type Config struct {
	Driver  drivers.Driver
	Version string // of the program, such as "1.2.0"
	// Stop is called when the client shuts the program down. It may be nil.
	Stop func(ctx context.Context) error
	Log  hclog.Logger // nil for lines in JSON on standard error, which the client logs
}

// Serve serves the driver until the client ends the program. A program that was not started by a
// client prints a message and exits.
func Serve(cfg Config) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey,
			MagicCookieValue: wire.CookieValue},
		Plugins: plugin.PluginSet{"driver": server{cfg: cfg}},
		Logger:  cfg.Log,
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32))...)
		},
	})
}

// server registers both services.
type server struct {
	plugin.NetRPCUnsupportedPlugin
	cfg Config
}

// GRPCServer implements plugin.GRPCPlugin.
func (s server) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	register(g, s.cfg)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (server) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a driver's program is not a client")
}

func register(g *grpc.Server, cfg Config) {
	shared := &node{}
	proto.RegisterBasePluginServer(g, &base{cfg: cfg, node: shared})
	proto.RegisterDriverServer(g, &driver{Driver: cfg.Driver, stop: cfg.Stop, node: shared, envs: map[string]map[string]string{}})
}

// node holds the data about the node that the client has sent.
type node struct {
	mu   sync.Mutex
	node wire.Node
}

func (n *node) get() wire.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

// set takes the speed of a core from the topology: the mean of the usable cores, or the share of the
// total that the operator has set.
func (n *node) set(t *proto.ClientTopology) {
	var total, cores uint64
	for _, c := range t.GetCores() {
		if speed := cmp.Or(c.GetBaseSpeed(), c.GetMaxSpeed(), c.GetGuessSpeed()); !c.GetDisable() && speed > 0 {
			total, cores = total+speed, cores+1
		}
	}
	if over := t.GetOverrideTotalCompute(); over > 0 {
		total, cores = over, uint64(len(t.GetCores()))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if cores > 0 {
		n.node.MHzPerCore = total / cores
	}
}

// base is the service that every plugin has.
type base struct {
	proto.UnimplementedBasePluginServer
	cfg  Config
	node *node
}

// PluginInfo implements proto.BasePluginServer.
func (b *base) PluginInfo(context.Context, *proto.PluginInfoRequest) (*proto.PluginInfoResponse, error) {
	return &proto.PluginInfoResponse{Type: proto.PluginType_DRIVER, PluginApiVersions: []string{wire.APIVersion},
		PluginVersion: b.cfg.Version, Name: b.cfg.Driver.Name()}, nil
}

// ConfigSchema implements proto.BasePluginServer.
func (b *base) ConfigSchema(context.Context, *proto.ConfigSchemaRequest) (*proto.ConfigSchemaResponse, error) {
	spec, err := hclspec.Encode(b.cfg.Driver.ConfigSpec())
	return &proto.ConfigSchemaResponse{Spec: spec}, wire.EncodeError(err)
}

// SetConfig implements proto.BasePluginServer. Clients call it also without their own configuration,
// to check the block.
func (b *base) SetConfig(_ context.Context, req *proto.SetConfigRequest) (*proto.SetConfigResponse, error) {
	if v := req.GetPluginApiVersion(); v != "" && v != wire.APIVersion {
		return nil, wire.EncodeError(fmt.Errorf("the client uses API version %q, and the driver has %s", v, wire.APIVersion))
	}
	val, err := wire.DecodeConfig(req.GetMsgpackConfig(), b.cfg.Driver.ConfigSpec())
	if err == nil {
		err = b.cfg.Driver.SetConfig(val)
	}
	b.node.set(req.GetNomadConfig().GetDriver().GetTopology())
	return &proto.SetConfigResponse{}, wire.EncodeError(err)
}
