# What a 64-bit machine pickled, with positions that have 64 bits there.
import base64, pickle, zlib


def loaded(text):
    return pickle.loads(zlib.decompress(base64.b85decode(text)))


scipy_tree = (
    'c-m`Vom$Sq00upx#mSikm3qYmi6xndIePKgDJ4azsZ)B`yj?;-jLB0p8>eXW2<MgN0+q!l=NF~w0okcVnaNXnxZ~4`@^h0))6!ClfGRbn{a}O`'
    '3#Ax%7?8k$00#y%@rVhQ>m<S$7z`#tXqY~z>)?DgWOEvv;O4-@7eLK<0i~Is;>=L`KNK)CU<bIw(E%=Vn6bH&2!N{I-GL1)d@7*fasW!RqUpos'
    '9+*5Qh5q8i7LRzqlpa=aLIKh#C6xuB<kQ0xY&fN}qkT%y6b*0Y9>$s}etv%5j6ldxG9}6P2V?7$9!BRWB|!NMHjQZqP|S0K#B_r@G{&JR=l~kc'
    'pakWIK>4On8k$lLghI^;go=lu(Hc<N7eYHg&24Z-)z9FLs?PyxA3Q}`LdAm}retvSFr`@_``iZPb1zUZg9)(zy?MNu+NNX(g1ir6dou$A!C3&^'
    'l~Xdry_s5}>X1}e!u^k~Vp;-PQb5lVTxe0pj+XVfp)?0tQh;SiSW*OgG!x0A84}pM33HmCACRjD0L@~+?E'
)
periodic_tree = (
    'c-m`VoqCCd0StP?ijy-7D)ovB5=$}@bM)eqvr|fnQd6h&uqS)Fgn(F+r)V}#(dZG*E6oKej8D!lO4S3hQ;RZ_r}S{grxoSrCY7e8r4|8IYE1jV'
    '2r(E+G4L=Tfdc^!3~1sjCRwhN2xDMqm<*v|`k?NE^VyKiX>fv@0~7xMHOB&K4ii+I8A|_$0%iv60GBvAz-10IHg^&MP}RFTu%U&|38;Srra)*`'
    'G<~?-1C!^Z&|jR`;t>y+(!&Z)C_p-;q_O~%e0rFI4X1Q=v`-0|qT$Wl!&o!L&(F`B5eOMdrX>0PU~HYz!{|Jv1Sp@urZMdRig|93m~L=~#yB(u'
    '9YCWQl%V_&DBl!HLsQCuP^dY9Q1LJ{S_4Y^LTCr5xed;!`Wf6&^*KQ8gQrMKsCcl$lnkyOrZfv=pWA?Z?ga{FFah?zH;*?{+msAJkoQ4sZ)RX1'
    'I18Y=a!Q7{H&ZKA9g+%5xc|{rOiMsZ3g}sa3oYu{(Xt*ll;%K73a~5*ONwBRW+HhsLjs#Ou{b^w>iA4d$19*X4WST1dpf|xK^j?L8iDrc0RW?@'
    '(Ek'
)
kd_tree = (
    'c-oDVOK;Oa5P;V<NfTP6pmIP+NC@%p0r>z0H3$jQ7Aja_ULjW#$7|NKaVkFql|cB?1km0(^v@uq9uPMUNO0hH@B?5s8JENgQpd8to!MFM?CeZl'
    '`M7k1j6|GDHa1x&j;x4<&$-u+6U*K3-85zlL^WbBA9ycd7dR1By4F(GUD$!gV2Z^k>uqgYZnqyZOO9C_c0tU$LEP_oSrD*Tx|)0YWK!<fBjoF2'
    'l80mNmq^Z{-a`E<as};A@js8y-Y(HZ-XGJ(|K_XH>&g1`Ive-PaUaq|`x6^PWprRkKi%F^c@TQA4Da6!RXV64v>V_!&b>cUMjuL2@aO{72OzXn'
    'NTnOEn|seN6$Y}3)XB6QMb05LWCdA6){%IlWF86pn9#$C0QvD*;q3rFQ4Xz;g_8b7`}F<S%3Yh3LN7x5c{6u@f4gN@OY4jIw_iVeZv9xcRcJ>0'
    '%H_%Ay#~h=_0WIiCTS;5LCmQ!i+nXoTv?=nEXcUyhgl+X`36jW?ocNr1K{WRC0dibAlZ<-$Q$(J05W=pYP6xejQ{7MIbD-Q4Ik*uQth^9^PmR*'
    ')hx&`bZSt2h?}die98C`r;Fz7u~c@KY)wB*QWrJgnrzJLV)1s?-3)!!iPq$7C+f0mOW37Fc@uT2TIn{`?%L$BXF5=AfG$Ju9GNQXFYN33)B'
)
ball_tree = (
    'c-oDV&2G~`5P;WClO{AsK}DzskWj^s4=6&kMJ+<Yv_PaT4U{I8dNOvrVGW5>*^ZzRNVzltw6{+C4!}F0z64jEq2iD$jGc*;SUoV7{q4@q&d!W?'
    'dfDUr3`;~^4d1nd9r$HmcyFZB3Bt1F*sYco1ww$z`QrTx=Pew8WGcUo3$<8(1c&en3^ng}+xrJ)tI-KW8OI{<8ldK^X3%Ln-DXn+Xlk6CvPpSn'
    'Cg@d0WG_cNO_43qyhigC;yUT;<Y$}oyD1vPtr1P~+uNAl&nnaVOggVe=dd->@0g&nNy11sI@pivp!DV{eEB?x%fT~BdkEEPb@MMu^5HB3hZnit'
    '2c>O5gl4i}oV=z|WQaMU&Zgx8ah9kNv&1~HK%~FQ=7=CKD&3n1P+mGOyhD(e)1i%}n414yyE3yl+%#D#^l@lEi+el6Z;#DfYX5ls&)HdhsIQuF'
    'Xqnxmdy~cc2vtKBJokeYMs^T^nvKW8cjHlL;YDrYl?-gx>xNj%PhiL!|CJ%@gS;v4@I3MsvV^=XOMIaZU4ETwycAnyChKsQ;;qNBvSt4Gj`H<6'
    'aobGvzaEWPuZ(zH!@Nr9FT?c#Ig7{mvgBD%*TxOk77=y}wwvpPkwr6*8n)U4HUG5RXnC%%{U^9;`wek_nYwO#U0EDuKJ|B!(<jq7*MMt%G8uqV'
    '#nj9H0L5<x=K'
)
classifier = (
    'c-pO0Pfrs;6yIHJX>Bz%7(+-P;Hh4kfJ&_K&;Uwcw2C6}Hg3DK%+PkX*_j0~n$!az$=rDIWxR0k3wZSG2ho}Bl(4nv#ck5xy!U3_Z{EM@Wxo8('
    'Sji{nc&km^D5wO4ZPP{=@d|FXUCx=$nyz4B0P-fP4~)ykL?SqWJD=bqlw~2n=Z68=G8?%bi#gO~-feG(5fiina=hhX5fK71uLyn2*?R(LMrJ!i'
    'M69XQ9Tv30J>Fs<ul1F<>qc%zd$PNL9GMO9PT0`$_?~7IT=|Uy=7*7DxE^4ixFU`S$1K45Kp~7pHx?W(co>dlE{RN;K~4m5r@OCW4I@%fYm(fd'
    'fc+@!G-BUR0xX}Ftn_Ca1er-3DD=dBm#EFsVGrQ=^AWs+G8&WiBdFKw>%Y{O{2@y~133pE?PU;ZlXUPt&|Brxx0i7IZyD$`DjooxOV}rg3bHBK'
    'F2Si}V^vdm;}4^%4~d&?<`FkY^2CHT(a-~$li5UmlZ11YB7ag#ptssb>qQ^WhS0ig<V_>rH@IZ<uZ^D#qu(0BvcYG4tQo((<@9-LHGQsT_<DxN'
    'sv7;P8qg`}_!mk_XGRpXh@8VgN>u}Lx6^H_2Gi*PRFoOh^HU?n?0g`y0oi-r*ik)1t1^pLHnsKy4m2%Y{9B7S2FDCuF=(dS${HLum@}9+c-3HG'
    'REuch*&*WM&;`EPU%&rYT1%2Owsm*m;sAVrdRgX~_YQO6Mna9MUX#GnD~|Om0OyZ|&`$|n(>Z7V%DJU7zD_q#P9aiQQuvfEpvgms(JZo2N$;{R'
    'kE5Dyx(m$&%8jEuI7j9%no*LCto~0<59-(-3spsrabbpp1AVA!h~>oN!Kkb#s~a@Q;yqK)LH}9$R=J_<YWCE%M{Yp&pyQ69QCFeL5;oVuyCmYt'
    'o1K}jR4elkH!8mYlq{M('
)
decisions = (
    'c-p;H&1(}u6yKyxo1`B^t+hhM3O&S2upm-F+|{&JUClvS@iuNYlkDPtxjS2JQK*N02y@c0pnrsT(rZtOo<#IwJ=BAOH_sldZ#I)O8zL1HAIrYX'
    '`~1DPZ(f#CkKXi35z+m@4GU|&Qy@OZ1*BVA5a58(;VG<}f$2K4ATM&MSv9fG9<rnN*j<*V8QnJt_Q8VD?waYCjHUz6G6@JlQpN#cG-GSGQ3ZR%'
    'U?sZ8HXRgbwrAl0MW#$m(p;+)pj4Tfpd(y(3!62ApsKIw1k%)%Gm;?M&tq4yMnWF|m*^lra~tHil}OU>Yfi<rQ9v|;nF_`7u%_*W0DS>)=|0v1'
    '+!`~gUu1>|8C~~~W_gCzVl-g8j!Rs})R7)=t3juU13>~_Rn|dnNW72)h}V-AeMOA!b3)r&fKIzUF2HYSq0VR@l<C^#uv(3JoL|pLaY_izXetT-'
    'yh0W{48}BRPO|%JtLzHPt6em4ij_*Gi`ziaOO*&KtI1_X6GcYAh=bd~Gu(>D4lQD8zOO<2o<P?ujiWKfis@t{{|b*V(AxW`;1r)92)8#rPy7wj'
    'z=sF|sY&BtemyNhHA5O>YGRog;~bot;B~-&85yW0%RePR3mur1J}5o<vOLH}GTxV-wm#MAl2Yeea(_&oSEM!&T~Y^HnpGBup3Zz;d@rYBiXo+u'
    'XS<Dl3NF+eQpfn|X8vx$Q=Rf(pKIbz#x+g<Kg}QS%Xj%-`HMXwWjo<lrj@mqKi*zD{88?WDMp+48^e(4*#FbY=&PIXe3F0HzyDSL-}b*d=ALW%'
    'Gvg5Lx_aVx>jl2UN_m>KaFrn4Fs%x#2R~Yc;?yf{9_&|Qzy&m1E=@NU8{-Qpx;SF3GJ2rC(QpN|YxdeEtahh{YAzx!;z?mi@cVZLki|BOaiqgu'
    'kye;-*0`*uffs@2fKPGH>TaGRU^#8fs$;;<foC5044jVvKhGnC6D<*x4iP3-Sg0y$Le240Ut@*Po_Wm*#h!Q;>-(16;7=ZN`X=~mxqU9$?WK<M'
    'vt$2Y`~p1h<QMklb9?ivJQvXy!9VQk->zrSi9RSTxhkp(%QT0?az*pl52AnG)I{NAVFHweUy$B)5d'
)

loaded(scipy_tree).query([[50, 50], [0, 0]], 3)[0]
loaded(scipy_tree).query([[50, 50], [0, 0]], 3)[1].tolist()
loaded(scipy_tree).leafsize
sorted(loaded(scipy_tree).query_ball_point([50, 50], 40))
loaded(periodic_tree).query([[99, 199]], 3)[0]
loaded(periodic_tree).boxsize
loaded(kd_tree).query([[50, 50], [0, 0]], 3)[0]
loaded(kd_tree).query([[50, 50], [0, 0]], 3)[1].tolist()
loaded(ball_tree).query([[50, 50], [0, 0]], 3)[0]
loaded(ball_tree).query_radius([[50, 50]], 40, count_only=True).tolist()
loaded(classifier).predict([[50, 50], [0, 0], [99, 99]])
loaded(decisions).predict([[50, 50], [0, 0], [99, 99]])
pickle.loads(pickle.dumps(loaded(scipy_tree))).query([50, 50])[0]
pickle.loads(pickle.dumps(loaded(kd_tree))).query([[50, 50]])[0]
