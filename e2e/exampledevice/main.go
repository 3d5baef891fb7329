// Command exampledevice is an example of a device plugin. It is a module of its own, and uses only
// go-plugin, gRPC and the code generated from the .proto files of the protocol: copy it to begin a plugin.
// Its devices are the device nodes that the plugin block lists.
//
//	plugin "exampledevice" {
//	  config { nodes = ["/dev/ttyUSB0", "/dev/ttyUSB1"] }
//	}
//
//	resources {
//	  device "example/node" { count = 1 }
//	}
//
// A task gets its nodes at the same paths, and their paths in EXAMPLE_NODES.
package main

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"example.com/exampledevice/proto"
)

// The handshake of the protocol. The cookie is not secret: it shows that an agent started the program.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

func main() {
	plugin.Serve(&plugin.ServeConfig{HandshakeConfig: handshake, GRPCServer: plugin.DefaultGRPCServer,
		Plugins: plugin.PluginSet{"device": services{devices: &devices{}}}})
}

// services registers both services of the protocol on go-plugin's server.
type services struct {
	plugin.NetRPCUnsupportedPlugin
	devices *devices
}

// GRPCServer implements plugin.GRPCPlugin.
func (s services) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	proto.RegisterBasePluginServer(g, &base{devices: s.devices})
	proto.RegisterDevicePluginServer(g, s.devices)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin. Only an agent is a client.
func (services) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not a client")
}
