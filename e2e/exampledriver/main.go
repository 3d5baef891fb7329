// Command exampledriver is an example of an external task driver. It is a module of its own, and uses
// only go-plugin, gRPC and the code generated from the .proto files of the protocol: copy it to begin a
// driver. It runs the program of a task as it is, without isolation.
//
//	plugin "exampledriver" {
//	  config { greeting = "hello" }
//	}
//
//	task "web" {
//	  driver = "example"
//	  config { command = "/bin/sleep"  args = ["60"] }
//	}
//
// The agent may end this program at any time, and starts it again. So a task does not depend on it: each
// task has a process of its own, the keeper (keeper.go), which runs the program of the task and writes
// its exit to a file. The handle of a task contains what is needed to find the keeper again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"example.com/exampledriver/proto"
)

// The handshake of the protocol. The cookie is not secret: it shows that an agent started the program.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == keeperArg {
		if err := keep(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	d := newDriver()
	plugin.Serve(&plugin.ServeConfig{HandshakeConfig: handshake, GRPCServer: plugin.DefaultGRPCServer,
		Plugins: plugin.PluginSet{"driver": services{driver: d}}})
}

// services registers both services of the protocol on go-plugin's server.
type services struct {
	plugin.NetRPCUnsupportedPlugin
	driver *driver
}

// GRPCServer implements plugin.GRPCPlugin.
func (s services) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	proto.RegisterBasePluginServer(g, &base{driver: s.driver})
	proto.RegisterDriverServer(g, s.driver)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin. Only an agent is a client.
func (services) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not a client")
}
