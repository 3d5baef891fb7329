package wire

import (
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

func TestMux_Settings(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	got, deflt := Mux{}.config(log), yamux.DefaultConfig()
	if got.AcceptBacklog != 256 || got.KeepAliveInterval != 30*time.Second || got.ConnectionWriteTimeout != 10*time.Second ||
		got.StreamOpenTimeout != 75*time.Second || got.StreamCloseTimeout != 5*time.Minute ||
		got.MaxStreamWindowSize != deflt.MaxStreamWindowSize {
		t.Errorf("defaults: %+v", got)
	}
	got = Mux{AcceptBacklog: 1, KeepAlive: 2, WriteTimeout: 3, OpenTimeout: -1, CloseTimeout: 5}.config(log)
	if got.AcceptBacklog != 1 || got.KeepAliveInterval != 2 || got.ConnectionWriteTimeout != 3 || got.StreamOpenTimeout != 0 ||
		got.StreamCloseTimeout != 5 {
		t.Errorf("set: %+v", got)
	}
	if err := yamux.VerifyConfig(got); err != nil {
		t.Error(err)
	}
}
