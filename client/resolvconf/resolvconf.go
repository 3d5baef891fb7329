// Package resolvconf reads the resolv.conf of the node.
//
// miekg/dns has a parser for resolvers. It drops the options that it does not know, but tasks get all of them.
package resolvconf

import (
	"io"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// File is the path of the file.
const File = "/etc/resolv.conf"

const maxSize = 64 << 10 // of the part that is read

// Read returns the content of File. It is empty if the file cannot be read.
func Read() *nomad.DNSConfig {
	f, err := os.Open(File)
	if err != nil {
		return &nomad.DNSConfig{}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return &nomad.DNSConfig{}
	}
	return Parse(string(text))
}

// Parse returns the settings of a resolv.conf, in the order of the file. Other lines are skipped.
func Parse(text string) *nomad.DNSConfig {
	d := &nomad.DNSConfig{}
	for line := range strings.Lines(text) {
		switch words := strings.Fields(line); {
		case len(words) < 2:
		case words[0] == "nameserver":
			d.Servers = append(d.Servers, words[1])
		case words[0] == "search" || words[0] == "domain": // the last one applies
			d.Searches = words[1:]
		case words[0] == "options":
			d.Options = append(d.Options, words[1:]...)
		}
	}
	return d
}
