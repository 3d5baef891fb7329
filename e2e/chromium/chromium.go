// Package chromium starts Chromium for tests, and sends it commands. The tests of the web UI, of the
// documentation site and of the Debian package use it.
package chromium

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// Options start the program at path headless, with a profile directory of its own. It makes no connection but
// those of the pages.
func Options(path, profile string) []chromedp.ExecAllocatorOption {
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
	}
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync",
		"disable-extensions", "disable-default-apps", "mute-audio", "hide-scrollbars", "disable-dev-shm-usage"} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	return opts
}

// Send is a step that sends a command to the browser and discards its result.
func Send[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}
