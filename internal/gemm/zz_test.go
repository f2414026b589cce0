package gemm
import ("testing";"fmt";"time";"vsetrain/internal/par")
func TestZZ(t *testing.T){
	for _,s:=range []shape{{"sim fwd",128,256,1024,false,true,true},{"sim dz",64,1024,256,false,false,true},{"dW",256,1024,512,true,false,false},{"dW256",256,1024,256,true,false,false},{"dalpha",64,36,1024,false,true,true},{"scores",1900,4608,1024,false,true,false},{"large",4608,1024,2048,false,false,false},{"large tA",4608,1024,2048,true,false,false},{"256sq",256,256,256,false,true,true}}{
	 for _,th:=range []int{1,2}{
		if th==2 && s.m<1000 {continue}
		line:=fmt.Sprintf("%s %d threads: ",s.label,th)
		best:=[2]float64{}
		var runs [2]func()
		for f:=range 2{
			p:=par.New(th); defer p.Close()
			e,_:=New(p,Options{Fixed:f==1})
			runs[f]=s.product(e,false); runs[f]()
		}
		flops:=2*float64(s.m)*float64(s.n)*float64(s.k)
		for range 6 { for f:=range 2{
			n:=1+int(3e9/flops)
			t0:=time.Now(); for range n {runs[f]()}
			if g:=flops*float64(n)/float64(time.Since(t0).Nanoseconds()); g>best[f]{best[f]=g}
		}}
		t.Log(line, int(best[0]), int(best[1]), best[1]/best[0])
	 }}
	// packing
	x:=make([]float32,256*1024); for i:=range x{x[i]=float32(i%77)-30}
	for f:=range 2{
		p:=par.New(1); defer p.Close()
		e,_:=New(p,Options{Fixed:f==1})
		var a PackedA
		e.StartA(&a,64,1024,false)
		bt:=1e18; for range 200{ t0:=time.Now(); for i:=0;i<64;i+=4{e.SetRowsA(&a,i,x[i*1024:(i+4)*1024])}; if d:=float64(time.Since(t0).Nanoseconds());d<bt{bt=d}}
		t.Log("setRowsA",f,bt/65536*4,"ns/4 values", 65536*4/bt,"GB/s")
		var b Packed
		for _,tr:=range []bool{false,true}{
		bt=1e18; for range 200{ t0:=time.Now(); if tr {e.PackB(&b,true,1024,64,x,1024,false)} else {e.PackB(&b,false,256,1024,x,1024,false)}; if d:=float64(time.Since(t0).Nanoseconds());d<bt{bt=d}}
		n:=65536.0; if !tr {n=262144}
		t.Log("packB",tr,f,n*4/bt,"GB/s")
		}
	}
}
