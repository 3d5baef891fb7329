// Command examplecsi is an example of a CSI plugin. Its storage system is a directory, in which a volume is a directory or, for
// the attachment mode block-device, a file. All instances of the plugin need the same directory: on one machine, or on a
// network file system.
//
//	job "storage" {
//	  type = "system"
//	  group "plugin" {
//	    task "plugin" {
//	      driver = "raw_exec"
//	      config {
//	        command = "/usr/local/bin/examplecsi"
//	        args    = ["-root", "/srv/volumes"]
//	      }
//	      csi_plugin {
//	        id                     = "example"
//	        type                   = "monolith"
//	        stage_publish_base_dir = "<data_dir>/client/csi/monolith/example"
//	      }
//	    }
//	  }
//	}
//
// A call reads and writes the records of the storage system under one lock (storage.go), so the plugin has no state of its own
// and may be killed at any time. Each call may be repeated. The files:
//
//	identity.go    the name of the plugin and what it has
//	controller.go  volumes: create, attach, expand, list, delete
//	snapshot.go    snapshots, and copies of volumes
//	node.go        volumes on a node: stage, publish, and their ends
//	mount.go       bind mounts; loop.go: block devices
//	faults.go      faults for tests
//
// The plugin does not enforce the capacity of a directory. It must run as root, in the mount namespace of the agent or with
// propagation to it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// config are the flags.
type config struct {
	root       string
	node       string
	zone       string
	controller bool
	attach     bool
	stage      bool
	maxVolumes int64
	capacity   int64
	faults     string
}

func main() {
	var c config
	host, _ := os.Hostname() // the flag replaces it
	flag.StringVar(&c.root, "root", "", "`directory` of the storage system")
	flag.StringVar(&c.node, "node", host, "`ID` of this node in the storage system")
	flag.StringVar(&c.zone, "zone", "", "`zone` of this node; volumes are accessible in one zone")
	flag.BoolVar(&c.controller, "controller", true, "have the service Controller")
	flag.BoolVar(&c.attach, "attach", true, "volumes must be attached to a node")
	flag.BoolVar(&c.stage, "stage", true, "volumes must be staged on a node")
	flag.Int64Var(&c.maxVolumes, "max-volumes", 0, "volumes that a node can have, 0 for any `number`")
	flag.Int64Var(&c.capacity, "capacity", 1<<40, "`bytes` of the storage system")
	flag.StringVar(&c.faults, "faults", "", "`file` with faults for tests")
	flag.Parse()
	if err := run(c, os.Getenv("CSI_ENDPOINT")); err != nil {
		log.Fatal("examplecsi: ", err)
	}
}

// run serves the plugin on a socket until the process gets SIGTERM.
func run(c config, endpoint string) error {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || c.root == "" {
		return fmt.Errorf("CSI_ENDPOINT %q must be unix://PATH, and -root %q must be a directory", endpoint, c.root)
	}
	s := &storage{root: c.root, capacity: c.capacity}
	if err := s.addNode(c.node, c.maxVolumes); err != nil {
		return err
	}
	os.Remove(path) // of an instance that was killed
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(faults{c.faults}.intercept, s.intercept))
	csi.RegisterIdentityServer(server, &identity{config: c})
	csi.RegisterNodeServer(server, &node{config: c, storage: s})
	if c.controller {
		csi.RegisterControllerServer(server, &controller{config: c, storage: s})
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(listener)
}
