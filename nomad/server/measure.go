package server

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/hashicorp/go-metrics"
)

// measured holds the metric key of each method: "nomad", the service, the method
// in lower case with underscores.
var measured sync.Map // method → []string

// measure counts a call and how long it took. Calls that wait for a change count
// with their waiting, as they always have in dashboards.
func measure(method string, took time.Duration, err error) {
	metrics.IncrCounter([]string{"nomad", "rpc", "request"}, 1)
	if err != nil {
		metrics.IncrCounter([]string{"nomad", "rpc", "request_error"}, 1)
	}
	key, ok := measured.Load(method)
	if !ok {
		key, _ = measured.LoadOrStore(method, metricKey(method))
	}
	metrics.AddSample(key.([]string), float32(took.Seconds()*1000))
}

// metricKey turns "Node.UpdateStatus" into nomad, client, update_status: the
// service of nodes is called client in metrics.
func metricKey(method string) []string {
	service, name, _ := strings.Cut(method, ".")
	if service == "Node" {
		service = "Client"
	}
	return []string{"nomad", snake(service), snake(name)}
}

// snake writes camel case in lower case with underscores; a run of capitals stays
// one word.
func snake(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		begins := i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
