package main

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// faults is the path of a file with faults, which tests write while the plugin runs. A line is "METHOD FAULT [TEXT]":
//
//	hang         do not answer            hang-after   do what was asked, and do not answer, until the line is removed
//	die          end the process          die-after    do what was asked, and end the process
//	fail TEXT    answer Internal: TEXT    unavailable  answer Unavailable
//	huge         answer 100 MiB           other TEXT   answer with TEXT as the ID of the volume
//	not-ready    answer of Probe
//
// A line that begins with "once " is removed when it is used; its hang lasts until the caller gives up. The file NAME.seen gets
// a line with the METHOD of each call that hangs.
type faults struct{ file string }

// fault is what is wrong with a call. The kind is "" if nothing is.
type fault struct {
	kind, text string
	once       bool
}

// next returns the fault of a call.
func (f faults) next(method string) fault {
	raw, err := os.ReadFile(f.file)
	if err != nil {
		return fault{}
	}
	lines := strings.Split(string(raw), "\n")
	for i, line := range lines {
		rest, once := strings.CutPrefix(line, "once ")
		words := strings.SplitN(rest+"  ", " ", 3)
		if words[0] != method {
			continue
		}
		if once {
			if err := os.WriteFile(f.file, []byte(strings.Join(slices.Delete(lines, i, i+1), "\n")), 0o600); err != nil {
				return fault{kind: "fail", text: err.Error()}
			}
		}
		return fault{words[1], strings.TrimSpace(words[2]), once}
	}
	return fault{}
}

// hang waits until the fault of a method is removed, or until the context ends. The fault of a "once" line has been removed.
func (f faults) hang(ctx context.Context, method string, fault fault) error {
	seen, err := os.OpenFile(f.file+".seen", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := seen.WriteString(method + "\n"); err != nil {
		return err
	}
	if err := seen.Close(); err != nil {
		return err
	}
	for fault.once || f.lists(method, fault) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// lists reports whether the file still has the fault of a method.
func (f faults) lists(method string, fault fault) bool {
	raw, _ := os.ReadFile(f.file) // it need not exist
	return slices.ContainsFunc(strings.Split(string(raw), "\n"), func(line string) bool {
		return strings.HasPrefix(line+" ", method+" "+fault.kind+" ")
	})
}

// intercept does what a fault demands before and after a call.
func (f faults) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	fault := f.next(path.Base(info.FullMethod))
	switch fault.kind {
	case "hang":
		if err := f.hang(ctx, path.Base(info.FullMethod), fault); err != nil {
			return nil, err
		}
	case "die":
		unix.Kill(os.Getpid(), unix.SIGKILL)
	case "fail":
		return nil, status.Error(codes.Internal, fault.text)
	case "unavailable":
		return nil, status.Error(codes.Unavailable, fault.text)
	}
	answer, err := handler(ctx, req)
	switch fault.kind {
	case "hang-after":
		if err := f.hang(ctx, path.Base(info.FullMethod), fault); err != nil {
			return nil, err
		}
	case "die-after":
		unix.Kill(os.Getpid(), unix.SIGKILL)
	case "huge":
		field := protowire.AppendTag(nil, 9999, protowire.BytesType)
		answer.(proto.Message).ProtoReflect().SetUnknown(protowire.AppendBytes(field, make([]byte, 100<<20)))
	}
	switch a := answer.(type) {
	case *csi.CreateVolumeResponse:
		if fault.kind == "other" && err == nil {
			a.Volume.VolumeId = fault.text
		}
	case *csi.CreateSnapshotResponse:
		if fault.kind == "other" && err == nil {
			a.Snapshot.SourceVolumeId = fault.text
		}
	case *csi.ProbeResponse:
		if fault.kind == "not-ready" {
			a.Ready = wrapperspb.Bool(false)
		}
	}
	return answer, err
}
