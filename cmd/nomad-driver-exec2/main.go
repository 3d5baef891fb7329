// Command nomad-driver-exec2 is the driver exec2 of this project as an external driver. It is for
// agents of Nomad, and for agents of this project that run exec2 outside of their own process. The
// agent starts it. Put it in the agent's plugin_dir, with a plugin block:
//
//	plugin "nomad-driver-exec2" {
//	  config { unveil_defaults = true }
//	}
//
// Its supervisor runs the tasks and survives the agent and this program. It has its directory in -dir,
// by default below /run, since no task survives a reboot. Two agents on one machine may share it.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/version"
	"github.com/open-nomad/open-nomad/plugins/serve"
)

// defaultDir is the directory of the supervisor.
const defaultDir = "/run/nomad-driver-exec2"

func main() {
	companion.Main()
	dir := flag.String("dir", defaultDir, "directory of the supervisor")
	name := flag.String("name", exec2.Name, "name of the driver, for a second one with another configuration")
	show := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *show {
		fmt.Println("nomad-driver-exec2", version.Number, version.Commit())
		return
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: asLine}))
	super := supervise.NewClient(*dir, log)
	serve.Serve(serve.Config{
		Driver:  exec2.New(exec2.Config{Name: *name, Log: log, Supervisor: super}),
		Version: version.Number,
		Stop:    super.CloseAndStopIdle,
	})
}

// asLine gives the standard attributes of a line the names that clients expect of a plugin.
func asLine(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		a.Key = "@timestamp"
	case slog.MessageKey:
		a.Key = "@message"
	case slog.LevelKey:
		return slog.String("@level", strings.ToLower(a.Value.String()))
	}
	return a
}
