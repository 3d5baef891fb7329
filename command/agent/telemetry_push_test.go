package agent

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// received reads from a connection until it has the text.
func received(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got, buf := "", make([]byte, 64<<10)
	for !strings.Contains(got, want) {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("no %q in %q: %v", want, got, err)
		}
		got += string(buf[:n])
	}
	if strings.Contains(got, "forged") && !strings.Contains(got, "_forged") {
		t.Errorf("a label forged a line: %q", got)
	}
	if strings.Contains(got, "nomad.blocked") {
		t.Errorf("prefix_filter has no effect: %q", got)
	}
}

// Metrics arrive at each system in its protocol. Labels cannot forge other metrics.
func TestPushSinks(t *testing.T) {
	udp := func(t *testing.T) (string, func() net.Conn) {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn.LocalAddr().String(), func() net.Conn { return conn }
	}
	tcp := func(t *testing.T) (string, func() net.Conn) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln.Addr().String(), func() net.Conn {
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
	}
	for name, c := range map[string]struct {
		listen func(*testing.T) (string, func() net.Conn)
		set    func(s *config.Settings, addr string)
		want   string
	}{
		"statsd": {udp, func(s *config.Settings, addr string) { s.Telemetry.StatsdAddress = addr },
			"nomad.jobs.web_forged_1_c_.n1:7.000000|g\n"},
		"statsite": {tcp, func(s *config.Settings, addr string) { s.Telemetry.StatsiteAddress = addr },
			"nomad.jobs.web_forged_1_c_.n1:7.000000|g\n"},
		"datadog": {udp, func(s *config.Settings, addr string) {
			s.Telemetry.DatadogAddress, s.Telemetry.DatadogTags = addr, []string{"env:prod"}
		}, "nomad.jobs:7|g|#env:prod,job:web_forged_1_c_,host:n1"},
	} {
		t.Run(name, func(t *testing.T) {
			addr, conn := c.listen(t)
			s := config.Default()
			s.Name, s.Telemetry.UseNodeName, s.Telemetry.PrefixFilter = "n1", true, []string{"-nomad.blocked"}
			c.set(s, addr)
			tel, err := newTelemetry(s, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			tel.core.SetGauge([]string{"blocked"}, 1)
			tel.core.SetGaugeWithLabels([]string{"jobs"}, 7, []metrics.Label{{Name: "job", Value: "web\nforged:1|c\n"}})
			received(t, conn(), c.want)
			tel.close()
			tel.core.IncrCounter([]string{"after", "the", "end"}, 1) // libraries do not stop with the agent
		})
	}
}
