// Package browse opens pages of the web UI in the user's browser.
//
// The program that the variable BROWSER names opens the page, or the default browser of the
// desktop. Without a desktop, as on a server, only the address is printed. The paths are those of
// the pages in ui/app/routes.js.
package browse

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Paths of the lists of the UI.
const (
	Root        = "/ui/"
	Jobs        = "/ui/jobs"
	Nodes       = "/ui/clients"
	Evaluations = "/ui/evaluations"
	Servers     = "/ui/servers"
	Variables   = "/ui/variables"
	Volumes     = "/ui/storage/volumes"
	Plugins     = "/ui/storage/plugins"
)

// Job returns the path of a job. tab is a part of its page, such as "deployments", or "".
func Job(id, namespace, tab string) string {
	path := Jobs + "/" + url.PathEscape(id+"@"+namespace)
	if tab != "" {
		path += "/" + tab
	}
	return path
}

// Allocation returns the path of an allocation.
func Allocation(id string) string { return "/ui/allocations/" + url.PathEscape(id) }

// Node returns the path of a node.
func Node(id string) string { return Nodes + "/" + url.PathEscape(id) }

// Evaluation returns the path of an evaluation.
func Evaluation(id string) string { return Evaluations + "/" + url.PathEscape(id) }

// Variable returns the path of a variable.
func Variable(path, namespace string) string {
	return Variables + "/var/" + url.PathEscape(path+"@"+namespace)
}

// CSIVolume returns the path of a CSI volume.
func CSIVolume(id, namespace string) string {
	return Volumes + "/csi/" + url.PathEscape(id+"@"+namespace)
}

// Plugin returns the path of a CSI plugin.
func Plugin(id string) string { return Plugins + "/" + url.PathEscape(id) }

// Address returns the URL of a page of the agent.
func Address(c *api.Client, path string) (string, error) {
	u, err := url.Parse(c.Address())
	if err != nil {
		return "", fmt.Errorf("Error parsing the address of the agent: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("a browser cannot open %s: set -address to an http:// or https:// address of the agent", c.Address())
	}
	return u.Scheme + "://" + u.Host + path, nil
}

// Show prints the address of a page to standard error, which keeps the output of a command as it is,
// and opens it. A browser that does not start is a warning, because the address was printed.
func Show(ctx context.Context, e *term.Env, c *api.Client, path string) error {
	address, err := Address(c, path)
	if err != nil {
		return err
	}
	e.Warnf("Opening URL %q", address)
	if err := Open(ctx, address); err != nil {
		e.Warnf("%v", err)
	}
	return nil
}

// Open opens a URL in the browser, if there is one.
func Open(ctx context.Context, address string) error {
	args := command(os.Getenv)
	if args == nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, args[0], append(args[1:], address)...).CombinedOutput()
	if err != nil {
		text := strings.ReplaceAll(string(out), address, "the address") // which can contain a one-time token
		return fmt.Errorf("Error opening the browser with %s: %w %s", args[0], err, strings.TrimSpace(text))
	}
	return nil
}

// command returns the program that opens a URL, nil for none. On Linux, xdg-open without a desktop
// could start a browser in the terminal.
func command(env func(string) string) []string {
	if args := strings.Fields(env("BROWSER")); len(args) > 0 {
		return args
	}
	if runtime.GOOS == "darwin" {
		return []string{"open"}
	}
	if env("DISPLAY") == "" && env("WAYLAND_DISPLAY") == "" {
		return nil
	}
	if path, err := exec.LookPath("xdg-open"); err == nil {
		return []string{path}
	}
	return nil
}
