package man

import (
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/term"
)

// overview returns the page nomad(1).
func overview(commands []term.Command, date time.Time) string {
	w := &writer{}
	head(w, "nomad", "Workload orchestrator: agent and command line", date)
	w.WriteString(".Sh SYNOPSIS\n")
	w.macro("Ic", "nomad <command> [options] [arguments]")
	w.WriteString(".Sh DESCRIPTION\n")
	w.text(about)
	w.WriteString(".Sh COMMANDS\n.Bl -tag -width Ds\n")
	for _, c := range commands {
		w.WriteString(".It Xr " + nameOf(c.Name) + " 1\n")
		w.text(strings.TrimSuffix(c.Short, ".") + ".")
	}
	w.WriteString(".El\n")
	w.flags("OPTIONS", term.GeneralFlags())
	w.items("ENVIRONMENT", variables)
	w.items("FILES", paths)
	w.WriteString(".Sh EXIT STATUS\n")
	w.text(status)
	w.WriteString(".Sh EXAMPLES\nRun an example job on an agent of this machine:\n.Bd -literal -offset indent\n")
	for _, line := range []string{"nomad agent -dev", "nomad job init", "nomad job run example.nomad.hcl", "nomad job status example"} {
		w.WriteString(escape(line) + "\n")
	}
	w.WriteString(".Ed\n.Sh SEE ALSO\n.Xr journalctl 1 ,\n.Xr systemctl 1\n")
	return w.String()
}

const (
	about = `nomad is the agent of open-nomad, an orchestrator for services and batch jobs, and its command line.
Servers keep the state of a cluster and place the tasks of jobs. Clients run them in sandboxes.

Options come before the arguments and begin with one dash or two. An ID may be shortened to a unique prefix of at
least two characters. The option -help describes a command.`

	status = `The exit status is 0 on success and 1 after an error, unless the page of the command lists others. It is 127
for an unknown command.`
)

// variables are the environment variables of the command line.
var variables = [][2]string{
	{"NOMAD_ADDR", "The address of the agent, by default http://127.0.0.1:4646."},
	{"NOMAD_TOKEN", "The secret ID of an ACL token, or a workload identity."},
	{"NOMAD_NAMESPACE", "The namespace of the objects, by default \"default\"."},
	{"NOMAD_REGION", "The region that answers."},
	{"NOMAD_CACERT, NOMAD_CAPATH", "A file, or a directory of files, with the CA of the agent's certificate."},
	{"NOMAD_CLIENT_CERT, NOMAD_CLIENT_KEY", "Files with the certificate and the key of the caller."},
	{"NOMAD_TLS_SERVER_NAME", "The name to expect in the agent's certificate."},
	{"NOMAD_SKIP_VERIFY", "If set to true, the agent's certificate is not verified."},
	{"NO_COLOR, NOMAD_CLI_NO_COLOR", "If set, the output has no color."},
}

// paths are the files of an installation by package.
var paths = [][2]string{
	{"/etc/nomad.d", "The configuration of the agents of this machine."},
	{"/var/lib/nomad", "The state of the client."},
	{"/var/lib/open-nomad-server", "The state of the server."},
}

// items writes a section with a list.
func (w *writer) items(title string, list [][2]string) {
	w.WriteString(".Sh " + title + "\n.Bl -tag -width Ds\n")
	for _, i := range list {
		w.macro("It", i[0])
		w.text(i[1])
	}
	w.WriteString(".El\n")
}
