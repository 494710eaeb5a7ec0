package doctor

import (
	"context"
	"path/filepath"

	"crabmem/daemon/gateway"
)

// checkGateway looks whether the files of the gateway can be read, and whether it answers.
// A home without them has no gateway.
func (d *doctor) checkGateway(ctx context.Context) {
	_, err := d.FS.Lstat(filepath.Join(d.Home, gateway.File))
	_, kerr := d.FS.Lstat(filepath.Join(d.Home, gateway.KeyFile))
	if missing(err) && missing(kerr) {
		return
	}
	conf, err := gateway.ReadConfig(d.FS, d.Home)
	if err == nil {
		_, err = gateway.Keys(d.FS, d.Home)
	}
	switch {
	case err != nil:
		d.broken("gateway", err)
	case gateway.Answers(ctx, &conf.Server, gateway.HomeID(d.FS, d.Home)):
		d.ok("gateway", "answers at %s", conf.Server.URL(conf.Server.Host, conf.Server.Port))
	default:
		d.ok("gateway", "not running; run crabmem gateway or crabmem open to start it")
	}
}
