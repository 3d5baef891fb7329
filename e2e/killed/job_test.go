package killed_test

import (
	"fmt"
	"strings"
)

// group is the group of a job.
type group struct {
	node   string // of the first allocation, "" for any
	static int    // the static port
	volume string // the sticky volume, "" for none
	disk   bool   // with data that migrates
}

// listener answers each connection with its process ID.
const listener = `use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 9, LocalPort => 8080, ReuseAddr => 1) or die; while (my $c = $s->accept) { print $c "$$\n"; close $c }`

// dataSize is the size of the data that migrates, before the ID of the allocation that wrote it.
const dataSize = 6 << 20

// text returns the group with a bridge network, a static and a dynamic port, a service with a check, and
// the rest that is selected.
func (g group) text() string {
	var out strings.Builder
	script := fmt.Sprintf("exec perl -e '%s'", listener)
	add := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	add(`group "g" {`)
	if g.node != "" {
		add("constraint {\n attribute = \"$${node.unique.name}\"\n value = %q\n}", g.node)
	}
	add("network {\n mode = \"bridge\"\n isolate = true\n port \"web\" {\n static = %d\n to = 8080\n }\n port \"any\" {\n to = 8080\n }\n}", g.static)
	add("service {\n provider = \"nomad\"\n name = \"web-%d\"\n port = \"any\"\n check {\n type = \"tcp\"\n interval = \"1s\"\n"+
		" timeout = \"1s\"\n }\n}", g.static)
	add("restart {\n delay = \"100ms\"\n}")
	add("update {\n max_parallel = 0\n}") // no deployment
	mount := ""
	if g.volume != "" {
		add("volume \"v\" {\n type = \"host\"\n source = %q\n sticky = true\n}", g.volume)
		mount = "volume_mount {\n volume = \"v\"\n destination = \"local/v\"\n}\n"
		script = "date >>$NOMAD_TASK_DIR/v/starts && " + script
	}
	if g.disk {
		add("ephemeral_disk {\n size = 300\n migrate = true\n}")
		big := "$NOMAD_ALLOC_DIR/data/big"
		script = fmt.Sprintf("test -e %s || { { yes 0123456789abcdef | head -c %d; echo $NOMAD_ALLOC_ID; } >%s.new "+
			"&& mv %s.new %s; } && %s", big, dataSize, big, big, big, script)
	}
	add("task \"t\" {\n driver = \"exec2\"\n kill_timeout = \"2s\"\n config {\n command = \"/bin/sh\"\n args = [\"-c\", %q]\n }\n"+
		" %s resources {\n cpu = 10\n memory = 64\n }\n}",
		script, mount)
	add("}")
	return strings.ReplaceAll(out.String(), "$${", "${")
}
